// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// reopenDelay is how long a lost subscription waits before each try.
const reopenDelay = time.Second

// subscription is one multicast group of the kernel's, and which of its
// messages can change what Observe tells.
//
// What netifd makes of links (an interface that is up) comes with its own hotplug event.
type subscription struct {
	name     string
	protocol int
	groups   []int
	matters  func(h unix.NlMsghdr, body []byte) bool
	open     func(protocol int, groups ...int) (*os.File, error)
}

var subscriptions = []subscription{
	{"links", unix.NETLINK_ROUTE, []int{unix.RTNLGRP_LINK}, linkMatters, subscribe},
	{"nf_tables", unix.NETLINK_NETFILTER, []int{unix.NFNLGRP_NFTABLES}, tableMatters, subscribe},
}

// Watch says that something has changed, never what: several changes may give
// one event, our own give events too, and a lost message gives one. It ends
// with ctx; the channel is never closed.
func (k *Kernel) Watch(ctx context.Context) (<-chan struct{}, error) {
	var files []*os.File
	all := append(slices.Clone(subscriptions),
		subscription{"qdiscs", unix.NETLINK_ROUTE, []int{unix.RTNLGRP_TC}, qdiscChanges{}.matters, subscribe},
		subscription{"addresses and routes", unix.NETLINK_ROUTE, routingGroups, k.ways.matters, subscribe},
		subscription{"neighbours", unix.NETLINK_ROUTE, []int{unix.RTNLGRP_NEIGH}, k.hosts.matters, k.hosts.open(k)})
	for _, s := range all {
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
		go k.listen(ctx, all[i], f, k.events)
	}
	return k.events, nil
}

func (k *Kernel) open(s subscription) (*os.File, error) {
	if err := k.inject("watch " + s.name); err != nil {
		return nil, err
	}
	return s.open(s.protocol, s.groups...)
}

// subscribe opens a socket that Go's poller waits for: no thread of its own.
func subscribe(protocol int, groups ...int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for _, g := range groups {
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g)
		}
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

// anyMatters asks about each of the messages: what is asked may remember them.
func (s subscription) anyMatters(b []byte) (found bool) {
	for len(b) >= unix.NLMSG_HDRLEN {
		h, body, rest := split(b)
		if body == nil {
			return true
		}
		found = s.matters(h, body) || found
		b = rest
	}
	return found
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

// tableMatters keeps what happens to flowtables, and to the tables, chains, rules
// and sets of fw4 and of ours; sets' elements come and go with every DNS answer.
func tableMatters(h unix.NlMsghdr, body []byte) bool {
	switch h.Type & 0xff {
	case unix.NFT_MSG_NEWFLOWTABLE, unix.NFT_MSG_DELFLOWTABLE:
		return true
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN,
		unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE, unix.NFT_MSG_NEWSET, unix.NFT_MSG_DELSET:
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
