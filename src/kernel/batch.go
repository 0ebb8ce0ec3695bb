// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"golang.org/x/sys/unix"
)

// batch is one nf_tables transaction: the kernel does all of it or nothing
// (net/netfilter/nfnetlink.c, nfnetlink_rcv_batch). One that is sent without
// its end is checked and then aborted, which is how abilities are tried.
type batch struct {
	w    writer
	what []string // per message: the object that it is about, for errors
	sets uint32   // anonymous sets so far
	// counts are those of rules before, by identity: a rule that is made again goes on.
	counts map[string]ruleInfo
}

// answers are the kernel's, one per message of the batch; nil: accepted.
type answers []error

// refusal is the first message of a transaction that the kernel did not accept.
type refusal struct {
	what string
	err  error
}

func (r *refusal) Error() string { return r.what + ": " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// nfHeader is struct nfgenmsg; for a batch's begin and end, resource is the subsystem.
func nfHeader(family byte, resource uint16) []byte {
	return []byte{family, unix.NFNETLINK_V0, byte(resource >> 8), byte(resource)}
}

// message appends one request to nf_tables, in a family. Its sequence number
// is its place in what, from 1: the begin has 0.
func (b *batch) message(what string, typ uint16, flags uint16, family byte, attrs func(*writer)) int {
	if len(b.w.b) == 0 {
		b.w.open(unix.NFNL_MSG_BATCH_BEGIN, unix.NLM_F_REQUEST, 0, nfHeader(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)...)
		b.w.close()
	}
	b.what = append(b.what, what)
	b.w.open(nftType(typ), unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags, uint32(len(b.what)), nfHeader(family, 0)...)
	attrs(&b.w)
	b.w.close()
	return len(b.what) - 1
}

func (b *batch) end() {
	b.w.open(unix.NFNL_MSG_BATCH_END, unix.NLM_F_REQUEST, 0, nfHeader(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)...)
	b.w.close()
}

func nftType(msg uint16) uint16 { return unix.NFNL_SUBSYS_NFTABLES<<8 | msg }

// try sends the batch without its end: the kernel answers and forgets it.
func (c *conn) try(call string, b *batch) (answers, error) {
	if err := c.inject(call); err != nil {
		return nil, err
	}
	return c.exchange(b)
}

// commit sends the batch as one transaction. The error names the message that
// was refused; nothing has been done then.
func (c *conn) commit(call string, b *batch) error {
	if err := c.inject(call); err != nil {
		return err
	}
	b.end()
	a, err := c.exchange(b)
	if err != nil {
		return err
	}
	for i, err := range a {
		if err != nil {
			return &refusal{b.what[i], err}
		}
	}
	return nil
}

// exchange sends b and waits for the answer to each message. An error for the
// batch as a whole (no permission, no nf_tables) comes with the begin's number.
func (c *conn) exchange(b *batch) (answers, error) {
	if err := c.send(b.w.b); err != nil {
		return nil, err
	}
	a := make(answers, len(b.what))
	left := len(a)
	err := c.receive(func(h unix.NlMsghdr, body []byte) (bool, error) {
		if h.Type != unix.NLMSG_ERROR || int(h.Seq) > len(a) {
			return false, nil
		}
		err := errnoOf(body)
		if h.Seq == 0 {
			return true, err
		}
		a[h.Seq-1] = err
		left--
		return left == 0, nil
	})
	return a, err
}
