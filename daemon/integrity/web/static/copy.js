// Copy a command with the button beside it. The buttons are shown only where this runs.
document.documentElement.classList.add("has-script");

async function copy(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(code); // browsers give their clipboard to pages by HTTPS only
    return document.execCommand("copy");
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (button === null) return;
  button.textContent = (await copy(button.parentElement.querySelector("code"))) ? "Copied" : "Selected";
  button.addEventListener("blur", () => { button.textContent = "Copy"; }, { once: true });
});
