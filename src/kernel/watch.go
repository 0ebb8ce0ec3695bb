// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// reopenDelay is how long a lost subscription waits before each try.
const reopenDelay = time.Second

// subscription is one multicast group of the kernel's, and which of its
// messages can change what Observe tells.
//
// Links are all of rtnetlink that is needed: no route or neighbour is part of
// Observed. What netifd makes of them (an interface that is up) comes with its
// own hotplug event. Of addresses only the first of a device matters, and only
// where VLANs stand on it: not worth a wake-up for each router advertisement.
type subscription struct {
	name     string
	protocol int
	group    int
	matters  func(h unix.NlMsghdr, body []byte) bool
	open     func(protocol, group int) (*os.File, error)
}

var subscriptions = []subscription{
	{"links", unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, linkMatters, subscribe},
	{"nf_tables", unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES, tableMatters, subscribe},
}

// Watch says that something has changed, never what: several changes may give
// one event, our own give events too, and a lost message gives one. It ends
// with ctx; the channel is never closed.
func (k *Kernel) Watch(ctx context.Context) (<-chan struct{}, error) {
	events := make(chan struct{}, 1)
	var files []*os.File
	for _, s := range subscriptions {
		f, err := k.open(s)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, refused("watch "+s.name, err)
		}
		files = append(files, f)
	}
	for i, f := range files {
		go k.listen(ctx, subscriptions[i], f, events)
	}
	return events, nil
}

func (k *Kernel) open(s subscription) (*os.File, error) {
	if err := k.inject("watch " + s.name); err != nil {
		return nil, err
	}
	return s.open(s.protocol, s.group)
}

// subscribe opens a socket that Go's poller waits for: no thread of its own.
func subscribe(protocol, group int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// listen hands on events until ctx ends. A lost socket is an event, because
// nobody knows what was missed, and is opened again.
func (k *Kernel) listen(ctx context.Context, s subscription, f *os.File, events chan<- struct{}) {
	for {
		stop := context.AfterFunc(ctx, func() { f.Close() })
		err := s.receive(f, events)
		stop()
		f.Close()
		for f = nil; f == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reopenDelay):
			}
			var failed error
			if f, failed = k.open(s); failed != nil {
				k.log.Warn("kernel events are lost", "of", s.name, "err", Explain(failed))
				continue
			}
			k.log.Info("kernel events were lost, watching again", "of", s.name, "err", Explain(err))
		}
		notify(events)
	}
}

// receive reads until the socket fails. It allocates nothing per message.
func (s subscription) receive(f *os.File, events chan<- struct{}) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	var n int
	var failure error
	read := func(fd uintptr) bool {
		n, failure = unix.Read(int(fd), buf)
		return failure != unix.EAGAIN
	}
	for {
		if err := raw.Read(read); err != nil {
			return err
		}
		switch {
		case failure == unix.EINTR:
		case failure == unix.ENOBUFS: // the kernel dropped messages; the socket goes on
			notify(events)
		case failure != nil:
			return failure
		case n == len(buf) || s.anyMatters(buf[:n]): // full: perhaps cut off
			notify(events)
		}
	}
}

func (s subscription) anyMatters(b []byte) bool {
	for len(b) >= unix.NLMSG_HDRLEN {
		h, body, rest := split(b)
		if body == nil {
			return true
		}
		if s.matters(h, body) {
			return true
		}
		b = rest
	}
	return false
}

func notify(events chan<- struct{}) {
	select {
	case events <- struct{}{}:
	default: // one is waiting already
	}
}

const ifinfomsgLen = 16 // struct ifinfomsg

// linkMatters leaves out what a bridge says about its ports (that they are its
// ports comes as a link of its own) and what wireless drivers say.
func linkMatters(h unix.NlMsghdr, body []byte) bool {
	if len(body) < ifinfomsgLen || body[0] == unix.AF_BRIDGE {
		return false
	}
	for typ := range attrs(body[ifinfomsgLen:]) {
		if typ == unix.IFLA_WIRELESS {
			return false
		}
	}
	return true
}

// tableMatters keeps what happens to the tables, chains, rules and flowtables
// of fw4 and of ours; sets' elements come and go with every DNS answer.
func tableMatters(h unix.NlMsghdr, body []byte) bool {
	switch h.Type & 0xff {
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN,
		unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE, unix.NFT_MSG_NEWFLOWTABLE, unix.NFT_MSG_DELFLOWTABLE:
	default:
		return false
	}
	for typ, b := range attrsOf(body) {
		if typ == unix.NFTA_TABLE_NAME { // the table's name is attribute 1 of each of them
			return isName(b, state.TableName) || isName(b, fw4Name)
		}
	}
	return false
}

// isName compares a NUL-terminated attribute.
func isName(b []byte, name string) bool {
	return len(b) == len(name)+1 && string(b[:len(name)]) == name
}
