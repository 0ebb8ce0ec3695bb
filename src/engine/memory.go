// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"fastpath/src/forward"

	"golang.org/x/sys/unix"
)

// What a frame of the UMEM holds: the kernel keeps 256 bytes in front, and
// headroom is for virtio-net, whose driver wants its own header (12 bytes) there
// in zero-copy mode, and for the layer 2 header that a packet gains.
const (
	frameSize = 2048
	headroom  = 64
	maxMTU    = frameSize - unix.XDP_PACKET_HEADROOM - headroom - (14 + 2*4) // Ethernet and two tags
)

// The shares of the machine's memory. A connection is two flows; one costs the
// program 240 bytes and 16 for each CPU (src/bpf, reserved at once), and in use
// up to 250 in the workers' table and in what flowsync keeps.
const (
	flowShare    = 16 // 1/16 of it for flows
	umemShare    = 16 // 1/16 of it, locked, for packets
	goShare      = 4  // 1/4 of it for the daemon's own, while workers run
	bytesPerFlow = 512
	leastFlows   = 4096
	mostFlows    = 2 * 65536 // 64k connections
	leastMemory  = 64 << 20  // engine afxdp wants more than that
)

// Slots of each ring: as many as the memory allows.
const (
	mostRing  = 1024
	leastRing = 64
)

// readMemTotal is the machine's memory in bytes.
func readMemTotal() (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the size of the memory: %w", err)
	}
	return uint64(info.Totalram) * uint64(info.Unit), nil
}

// maxFlows is the room for flows, each of one direction.
func maxFlows(memTotal uint64) uint32 {
	return uint32(min(max(memTotal/flowShare/bytesPerFlow, leastFlows), mostFlows))
}

// ringSize is the largest ring with which the UMEMs of all workers keep to
// their share; inputs are the receive queues of all ports. 0: none does.
func ringSize(memTotal uint64, workers, inputs, ports int) int {
	for ring := mostRing; ring >= leastRing; ring /= 2 {
		// The workers' inputs add up to inputs; each has all outputs.
		frames := uint64(forward.Frames(inputs, workers*ports, ring)) + uint64((workers-1)*forward.Frames(0, 0, ring))
		if frames*frameSize <= memTotal/umemShare {
			return ring
		}
	}
	return 0
}

// unlimitMemory raises the limit of locked memory, under which UMEMs fall, and
// BPF maps before Linux 5.11. Without CAP_SYS_RESOURCE it can't; then the one
// that doesn't fit says so.
func unlimitMemory() {
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &all) == nil {
		return
	}
	var have unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &have) == nil && have.Cur != have.Max {
		have.Cur = have.Max
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &have) // see above
	}
}
