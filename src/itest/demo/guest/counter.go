// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strconv"

	"fastpath/src/testkit"
)

// counterTable counts what the kernel forwards by the slow path, before any
// other rule of hook forward sees it. Multicast has no other path.
const counterTable = `table inet demo {
	chain forward {
		type filter hook forward priority -300; policy accept;
		meta pkttype != multicast counter
	}
}
`

// count is a counter's value; bytes are those of the IP packets.
type count struct{ packets, bytes int64 }

func (c count) minus(b count) count { return count{c.packets - b.packets, c.bytes - b.bytes} }

func startCounter(router *testkit.Netns) error {
	_, err := router.Sh("nft -f - <<'END'\n" + counterTable + "END\n")
	return err
}

var counterLine = regexp.MustCompile(`counter packets (\d+) bytes (\d+)`)

func readCounter(router *testkit.Netns) (c count, err error) {
	out, err := router.Sh("nft list chain inet demo forward")
	m := counterLine.FindStringSubmatch(out)
	if err != nil || m == nil {
		return c, fmt.Errorf("the demo's counter: %v: %s", err, out)
	}
	if c.packets, err = strconv.ParseInt(m[1], 10, 64); err != nil {
		return c, err
	}
	c.bytes, err = strconv.ParseInt(m[2], 10, 64)
	return c, err
}
