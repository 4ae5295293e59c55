# Inside the layer over the tree: the package, its modules unpacked, two boot menus; /mnt gets what is kept.
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
usual=$(ls /usr/lib/modules)
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get -q update
# What no lab host has hardware for stays packed in its package.
m=/usr/lib/modules/*/kernel
for d in drivers/gpu drivers/media drivers/staging drivers/infiniband drivers/iio drivers/usb drivers/hid drivers/input \
	drivers/net/wireless drivers/net/can drivers/scsi drivers/mtd drivers/comedi drivers/bluetooth drivers/isdn \
	drivers/hwmon drivers/nfc drivers/leds drivers/power drivers/pinctrl drivers/regulator drivers/rtc drivers/target sound \
	fs/btrfs fs/xfs fs/ocfs2 fs/gfs2 fs/bcachefs fs/ceph fs/smb fs/nfs fs/nfsd fs/jfs fs/f2fs net/bluetooth net/mac80211; do
	printf 'path-exclude=%s/%s/*\n' "$m" "$d"
done >/etc/dpkg/dpkg.cfg.d/lab-realtime
apt-get -q -y install --no-install-recommends linux-image-rt-amd64 initramfs-tools-
release=$(cd /usr/lib/modules && ls -d ./*-rt-amd64)
release=${release#./}
find "/usr/lib/modules/$release" -name '*.ko.xz' -print0 | xargs -0 -r -n 64 -P 2 xz -d
depmod "$release"

mkdir -p /mnt/all/boot/grub /mnt/all/etc/default /mnt/all/usr/lib/modules /mnt/all/var/lib/dpkg/info /mnt/first/boot/grub /mnt/first/etc/default
update-grub
cp -p /etc/default/grub /mnt/first/etc/default/
cp -p /boot/grub/grub.cfg /mnt/first/boot/grub/
# As an administrator keeps the usual kernel: by the names of its submenu and entry.
id=$(sed -n "s/^submenu .*menuentry_id_option '\([^']*\)' {\$/\1/p" /boot/grub/grub.cfg)
sed -i "s/^GRUB_DEFAULT=.*/GRUB_DEFAULT=\"$id>gnulinux-$usual-$(echo "$id" | sed s/^gnulinux-//)\"/" /etc/default/grub
update-grub
cp -p /etc/default/grub /mnt/all/etc/default/
cp -p /boot/grub/grub.cfg /mnt/all/boot/grub/
for f in vmlinuz config System.map initrd.img; do
	[ ! -e "/boot/$f-$release" ] || cp -p "/boot/$f-$release" /mnt/all/boot/
done
cp -a "/usr/lib/modules/$release" /mnt/all/usr/lib/modules/
cp -p /var/lib/dpkg/status /mnt/all/var/lib/dpkg/
cp -p /var/lib/dpkg/info/linux-image*rt-amd64* /mnt/all/var/lib/dpkg/info/
