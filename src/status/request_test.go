// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseRequest(t *testing.T) {
	for line, want := range map[string]Request{
		`{"request":"status"}`:                            {Request: AskStatus},
		" {\"request\" : \"status\"} \r\n":                {Request: AskStatus},
		`{"request":"flows","filter":["tcp","10.0.0.1"]}`: {Request: AskFlows, Filter: []string{"tcp", "10.0.0.1"}},
		`{"request":"prometheus"}`:                        {Request: AskPrometheus},
		`{"request":"flush"}`:                             {Request: AskFlush},
		`{"request":"flush","filter":["engine","xdp"]}`:   {Request: AskFlush, Filter: []string{"engine", "xdp"}},
		`{"request":"explain","tuple":["tcp","10.0.0.1:1","10.0.0.2:2"]}`: {Request: AskExplain,
			Tuple: []string{"tcp", "10.0.0.1:1", "10.0.0.2:2"}},
		`{"request":"notify","kind":"iface","values":{"ACTION":"ifup"}}`: {Request: AskNotify, Kind: "iface",
			Values: map[string]string{"ACTION": "ifup"}},
	} {
		got, err := ParseRequest([]byte(line))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
}

func TestParseRequestErrors(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "ends too early",
		"\n":                         "ends too early",
		`{"request":"sta`:            "ends too early",
		"hello":                      "invalid character",
		"\x00\xff\xfe\x80":           "invalid character",
		`"status"`:                   "cannot unmarshal",
		`[]`:                         "cannot unmarshal",
		`null`:                       "unknown request",
		`{}`:                         "unknown request",
		`{"request":7}`:              "cannot unmarshal",
		`{"request":"reboot"}`:       `unknown request "reboot"`,
		`{"request":"status","x":1}`: "unknown field",
		`{"` + strings.Repeat("long", 99) + `":1}`:                      "...",
		`{"request":"status"}{}`:                                        "something follows",
		`{"request":"status"} x`:                                        "something follows",
		`{"request":"notify"}`:                                          "without a kind",
		`{"request":"flows","filter":["nine"]}`:                         `"nine" is not`,
		`{"request":"flush","filter":["nine"]}`:                         `"nine" is not`,
		`{"request":"flush","filter":"tcp"}`:                            `cannot unmarshal`,
		`{"request":"explain"}`:                                         `tcp or udp`,
		`{"request":"explain","tuple":["tcp","10.0.0.1:1","10.0.0.2"]}`: `"10.0.0.2" is not`,
		`{"request":"` + strings.Repeat("a", 999):                       `ends too early`,
	} {
		_, err := ParseRequest([]byte(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want one with %q", line, err, want)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{"", "{}", `{"request":"status"}`, `{"request":"flows","filter":["tcp","port","443","2001:db8::/32"]}`,
		`{"request":"notify","kind":"iface","values":{"ACTION":"ifup"}}`, `{"request":"x\ny"}`, `{"request":"flush","filter":["engine","xdp"]}`,
		`{"request":"explain","tuple":["udp","[2001:db8::1]:5000","[2001:db8::2]:443"]}`, `{"request":"status"}{}`, "\x00\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRequest(line)
		if err != nil {
			text := err.Error()
			if strings.ContainsAny(text, "\n\r") || len(text) > 300 {
				t.Fatalf("not one readable line: %q", text)
			}
			if out, err := json.Marshal(Reply{Error: text}); err != nil || !utf8.Valid(out) {
				t.Fatalf("can't be sent: %v", err)
			}
			return
		}
		// What was understood must come through the client's way unchanged.
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRequest(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if third, err := json.Marshal(back); err != nil || string(third) != string(again) {
			t.Fatalf("%s became %s, %v", again, third, err)
		}
	})
}
