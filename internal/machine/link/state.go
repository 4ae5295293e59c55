package link

import (
	"context"
	"encoding/binary"
	"errors"
	"path"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of network devices.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.VFAttr:     vfAttr{m},
		setting.NICState:   nicState{m},
		setting.QueueLanes: queueLanes{m},
		setting.RootQdisc:  rootQdisc{m},
	}
}

// nicState reads and sets whether a network device is up (setting.NICState): the flag IFF_UP, by rtnetlink.
type nicState struct{ m *tree.Tree }

func (n nicState) Read(_ context.Context, a setting.Address) setting.Reading {
	if !n.m.Exists(path.Join(tree.ClassNet, a.Path)) {
		return setting.NoObject("there is no device " + a.Path)
	}
	flags, err := strconv.ParseUint(n.m.Line(path.Join(tree.ClassNet, a.Path, "flags")), 0, 32)
	switch {
	case err != nil:
		return setting.CouldNotTell("flags of " + a.Path + " cannot be read")
	case flags&unix.IFF_UP != 0:
		return setting.Value("up")
	}
	return setting.Value("down")
}

func (n nicState) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return n.m.SetLive(ctx, a, to, func(value string) error {
		index := n.m.Number(path.Join(tree.ClassNet, a.Path, "ifindex"), 0)
		if index == 0 {
			return errors.New("there is no device " + a.Path)
		}
		return tree.Netlink(setUp(index, value == "up"))
	})
}

// setUp brings a device up or takes it down.
func setUp(index int, up bool) error {
	conn, err := DialRoute()
	if err != nil {
		return err
	}
	defer conn.Close()
	message := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(message[4:], uint32(index))
	if up {
		binary.NativeEndian.PutUint32(message[8:], unix.IFF_UP)
	}
	binary.NativeEndian.PutUint32(message[12:], unix.IFF_UP) // ifi_change: the flags to change
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWLINK, Flags: netlink.Request | netlink.Acknowledge},
		Data:   message,
	})
	return err
}
