# Runs a program inside a tree: enter.sh TREE DEBS CERTS PROGRAM ARG...
# Started under "unshare --mount --pid --fork", so that every mount below ends with it.
set -e
tree=$1 debs=$2 certs=$3
shift 3
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mkdir -p "$tree/var/cache/apt/archives"
mount --bind "$debs" "$tree/var/cache/apt/archives"
if [ -n "$certs" ]; then
	mkdir -p "$tree/etc/ssl/certs"
	mount --bind "$certs" "$tree/etc/ssl/certs"
	mount -o remount,bind,ro "$tree/etc/ssl/certs"
fi
exec chroot "$tree" "$@"
