# Inside the new tree: packages (the arguments), unpacked modules, masked units.
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# QEMU from the release's backports: hosts emulated by Debian 13's own 10.0 die while they boot (docs/benchmarks.md).
backports=/etc/apt/sources.list.d/backports.list
sed -n 's/^deb \([^ ]*\) \([^ ]*\) .*/deb \1 \2-backports main/p' /etc/apt/sources.list >$backports
printf 'Package: qemu-* seabios ipxe-qemu\nPin: release n=*-backports\nPin-Priority: 600\n' >/etc/apt/preferences.d/qemu
# A mirror without backports has the release's own alone: Prepare compares the version and says so.
apt-get -q update || { rm $backports; apt-get -q update; }
apt-get -q -y install --no-install-recommends "$@"
rm -f /usr/sbin/policy-rc.d

kver=$(ls /usr/lib/modules)
find "/usr/lib/modules/$kver" -name '*.ko.xz' -print0 | xargs -0 -r -n 64 -P 2 xz -d
depmod "$kver"

for u in serial-getty@ttyS0.service getty@tty1.service ldconfig.service e2scrub_reap.service \
	libvirt-guests.service systemd-journal-catalog-update.service systemd-update-done.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer \
	openvswitch-switch.service ovsdb-server.service ovs-vswitchd.service ovs-record-hostname.service dpdk.service; do
	ln -sf /dev/null "/etc/systemd/system/$u"
done
mkdir -p /etc/systemd/system/sysinit.target.wants /lab /share
ln -sf ../lab-chan.service /etc/systemd/system/sysinit.target.wants/lab-chan.service
# What grub-mkconfig asks about the root's disk is answered by /lab/grub-probe; grub.cfg is made after /lab is there.
dpkg-divert --quiet --local --rename --add /usr/sbin/grub-probe
ln -s /lab/grub-probe /usr/sbin/grub-probe
mkdir -p /boot/grub
ldconfig
: >/etc/fstab
echo l1 >/etc/hostname
printf '127.0.0.1 localhost l1\n' >/etc/hosts
rm -rf /var/lib/apt/lists/* /etc/resolv.conf
