# Installs the realtime kernel in a copy-on-write layer over the lab's tree and takes out of that what belongs to it:
# realtime.sh TREE DEBS WORK INSIDE. Started under "unshare --mount --pid --fork", so that every mount below ends with it.
set -e
tree=$1 debs=$2 work=$3 inside=$4
mkdir "$work/upper" "$work/work" "$work/root" "$work/layer"
chmod 755 "$work/layer"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$work/upper,workdir=$work/work" "$work/root"
root=$work/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/var/cache/apt/archives" "$debs/partial"
mount --bind "$debs" "$root/var/cache/apt/archives"
if [ -d /etc/ssl/certs ]; then
	mkdir -p "$root/etc/ssl/certs"
	mount --bind /etc/ssl/certs "$root/etc/ssl/certs"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mount --bind "$work/layer" "$root/mnt"
exec chroot "$root" sh -c "$inside"
