// Show what runs now without reloading, and times relative to now. Pages are complete without it.
const live = document.getElementById("live");
if (live !== null && "EventSource" in window) {
  const events = new EventSource("/live");
  events.addEventListener("state", (event) => {
    const parsed = new DOMParser().parseFromString(event.data, "text/html");
    const now = document.importNode(parsed.body, true);
    live.replaceChildren(...now.childNodes);
  });
}

const units = [["day", 86400], ["hour", 3600], ["minute", 60]];
const format = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
for (const time of document.querySelectorAll("time[datetime]")) {
  const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
  const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  time.title = time.textContent;
  if (time.dataset.relative !== undefined) {
    time.textContent = format.format(Math.round(seconds / length), unit);
  }
}
