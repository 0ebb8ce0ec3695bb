// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sort"
	"sync"
	"time"

	"fastpath/src/state"
)

const (
	// ubusTime ends a question: netifd answers in milliseconds unless it hangs.
	ubusTime = 5 * time.Second
	// ubusPatience is how long a look waits for the answer. Then what netifd said
	// last counts; the answer, when it comes, is an event.
	ubusPatience = 300 * time.Millisecond
)

// netifd is the conversation with it: one question at a time.
type netifd struct {
	mu    sync.Mutex
	asked chan answer // the one that is under way; nil: none is
	last  []state.Interface
}

type answer struct {
	list []state.Interface
	err  error
}

// interfaces asks netifd. late: it hasn't answered yet, and list is what it said
// last. Where there is no ubus there are none.
func (k *Kernel) interfaces() (list []state.Interface, late bool, err error) {
	if err := k.inject("ask ubus"); err != nil {
		return nil, false, err
	}
	path, err := exec.LookPath("ubus")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	n := &k.netifd
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked == nil {
		n.asked = make(chan answer, 1)
		go func(to chan<- answer) {
			begin := time.Now()
			list, err := dumpInterfaces(path)
			to <- answer{list, err}
			if time.Since(begin) > ubusPatience {
				notify(k.events)
			}
		}(n.asked)
	}
	patience := time.NewTimer(ubusPatience)
	defer patience.Stop()
	select {
	case a := <-n.asked:
		n.asked = nil
		if a.err == nil {
			n.last = a.list
		}
		return a.list, false, a.err
	case <-patience.C:
		return n.last, true, nil
	}
}

func dumpInterfaces(path string) ([]state.Interface, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ubusTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "call", "network.interface", "dump")
	cmd.WaitDelay = time.Second // a child of its own must not hold the pipe
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ubus call network.interface dump: %w", err)
	}
	return readInterfaces(out)
}

// readInterfaces reads netifd's answer: "device" is missing for device-less
// protocols, "l3_device" while the interface is down.
func readInterfaces(b []byte) ([]state.Interface, error) {
	var dump struct {
		Interface []struct {
			Interface string `json:"interface"`
			Proto     string `json:"proto"`
			Device    string `json:"device"`
			L3Device  string `json:"l3_device"`
			Up        bool   `json:"up"`
			Data      struct {
				Zone string `json:"zone"`
			} `json:"data"`
		} `json:"interface"`
	}
	if err := json.Unmarshal(b, &dump); err != nil {
		return nil, fmt.Errorf("ubus call network.interface dump: %w", err)
	}
	var list []state.Interface
	for _, i := range dump.Interface {
		list = append(list, state.Interface{Name: i.Interface, Proto: i.Proto, Device: i.Device, L3Device: i.L3Device, Up: i.Up, Zone: i.Data.Zone})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}
