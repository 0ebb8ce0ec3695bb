// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fastpath/src/state"
)

// WriteFlows prints the flows for a person.
func WriteFlows(w io.Writer, flows []state.Flow) error {
	if len(flows) == 0 {
		_, err := fmt.Fprintln(w, "no accelerated flows")
		return err
	}
	out := bufio.NewWriter(w) // tabwriter writes cell by cell
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ENGINE\tPROTO\tFROM\tTO\tNAT\tPATH\tENCAP\tPACKETS\tBYTES\tIDLE")
	computed := false
	for _, f := range flows {
		mark := ""
		if f.Engine == state.EngineFlowtable {
			mark, computed = "*", true
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s -> %s%s\t%s\t%s\t%s\t%s\n", f.Engine, f.Proto,
			endpoint(f.Orig.Src, f.Orig.SrcPort), endpoint(f.Orig.Dst, f.Orig.DstPort), nat(f),
			or(f.In, "?"), or(f.Out, "?"), mark, or(f.Encap, "-"),
			counted(f, f.Orig.Packets, f.Reply.Packets), counted(f, f.Orig.Bytes, f.Reply.Bytes), idle(f))
	}
	t.Flush() // out keeps the error
	note := plural(len(flows), "flow") + ". PACKETS and BYTES: sent + returned."
	if computed {
		note += "\n* PATH and ENCAP are computed from routes and links: of a flowtable's flows the kernel doesn't tell."
	}
	fmt.Fprintln(out, note)
	return out.Flush()
}

// idle is how long ago an engine saw the last packet; of the flowtable's flows
// nobody knows.
func idle(f state.Flow) string {
	if f.Engine == state.EngineFlowtable {
		return "-"
	}
	return fmt.Sprintf("%.0f s", f.Idle)
}

// nat tells where the reply tuple differs from the original one turned round.
func nat(f state.Flow) string {
	var parts []string
	if f.Reply.Dst != f.Orig.Src || f.Reply.DstPort != f.Orig.SrcPort {
		parts = append(parts, "from "+endpoint(f.Reply.Dst, f.Reply.DstPort))
	}
	if f.Reply.Src != f.Orig.Dst || f.Reply.SrcPort != f.Orig.DstPort {
		parts = append(parts, "to "+endpoint(f.Reply.Src, f.Reply.SrcPort))
	}
	return or(strings.Join(parts, ", "), "-")
}

func counted(f state.Flow, sent, returned uint64) string {
	if !f.Counted {
		return "-"
	}
	return fmt.Sprintf("%d + %d", sent, returned)
}

func endpoint(addr string, port uint16) string {
	if strings.Contains(addr, ":") {
		return fmt.Sprintf("[%s]:%d", addr, port)
	}
	return fmt.Sprintf("%s:%d", addr, port)
}
