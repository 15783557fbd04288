#!/bin/sh
# The whole test run, from nothing: Debian packages (if they are missing and may be installed), a fresh virtual
# environment, the build with warnings as errors, pytest. Arguments go to pytest. Asks nothing.
#
#   sh tests/all.sh           everything that a change can break: a quarter of an hour on two cores
#   sh tests/all.sh --long    with matrices, campaigns, packages and emulated machines: hours
set -eu
cd "$(dirname "$0")/.."
exec </dev/null

# What else the environment would bring into the build, or into pytest before tests/support/isolation.py clears the rest.
for name in $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\|PYTEST_[A-Z0-9_]*\|LC_[A-Z]*\)=.*/\1/p') LANGUAGE VIRTUAL_ENV; do
	unset "$name"
done
export LANG=C.UTF-8
umask 022

packages="python3-venv python3-dev gcc libc6-dev libxxhash-dev git util-linux util-linux-extra mount strace par2 fuse3 systemd procps
e2fsprogs xfsprogs btrfs-progs xxhash b3sum hashdeep openssl rclone openssh-server openssh-client
restic borgbackup borgmatic snapraid msmtp prometheus postgresql chromium rsync sqlite3 mandoc man-db groff-base
gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-powerpc-linux-gnu libc6-dev-powerpc-cross qemu-user
bindfs mergerfs unionfs-fuse exfat-fuse exfatprogs
clang libclang-rt-dev musl-tools caddy nginx"

find_missing_packages() {
	for package in $packages; do
		case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in
		ii*) ;;
		*) printf '%s ' "$package" ;;
		esac
	done
}

# apt-get as whoever may; the DPkg option waits for another apt-get rather than failing.
apt() {
	if [ "$(id -u)" = 0 ]; then
		DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
	elif command -v sudo >/dev/null; then
		sudo -n DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
	else
		return 1
	fi
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
	missing=$(find_missing_packages)
	if [ -n "$missing" ]; then
		# shellcheck disable=SC2086 # several words on purpose
		{ apt update && apt install --no-install-recommends -y $missing; } ||
			echo "tests/all.sh: could not install: $missing(needs root or sudo); going on without" >&2
	fi
else
	echo "tests/all.sh: no Debian: tests that need missing programs are skipped and say which" >&2
fi

python=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
	if "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		python=$candidate
		break
	fi
done
if [ -z "$python" ]; then
	echo "tests/all.sh: no Python 3.11 or newer with ensurepip (Debian package python3-venv)" >&2
	exit 1
fi

# The native build has a folder of its own, so that the one of an editable install for work is left alone.
# Not editable: the tests' other users may read what this umask wrote, whatever the umask was that the checkout got.
rm -rf build/test-venv build/test-native
"$python" -m venv build/test-venv
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# --group needs pip 25.1
build/test-venv/bin/python -m pip install --quiet --upgrade pip
build/test-venv/bin/python -m pip install --quiet --no-compile --group test . \
	--config-settings build-dir=build/test-native --config-settings cmake.define.INTEGRITY_WERROR=ON
# On all cores, where pip would take one. What a package has for other versions of Python can't be compiled. Of the
# packages that are left out little is ever imported.
rarely='/site-packages/(Cryptodome|moto|mypyc?|pip|pygments|setuptools|sphinx)/'
build/test-venv/bin/python -W ignore -m compileall -qq -j 0 -x "$rarely" build/test-venv/lib || true

if [ "${1-}" = --long ]; then
	shift
	set -- -m "" "$@" # for what pyproject.toml leaves out
fi
# Once and on two cores, rather than by each worker for itself: compiling the tests is most of collecting them.
for modules in "tests/[a-h]*/" "tests/[i-z]*/"; do
	# shellcheck disable=SC2086 # a pattern
	build/test-venv/bin/python -m pytest --collect-only -qq $modules >/dev/null 2>&1 & # the run says what is wrong
done
wait

# More at a time than there are cores: services, mails and disks are waited for.
exec build/test-venv/bin/python -m pytest --numprocesses 7 --dist worksteal --durations 20 --durations-min 2 "$@"
