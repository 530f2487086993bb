package job

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// hostileURLs is refused with each policy below; says is why.
var hostileURLs = []struct{ url, says string }{
	{"", "needs a URL"},
	{"example.com/hook", "scheme"},
	{"//example.com/hook", "scheme"},
	{"http:example.com", "no host"},
	{"https:///hook", "no host"},
	{"file:///etc/passwd", "scheme"},
	{"gopher://example.com/", "scheme"},
	{"unix:///var/run/docker.sock", "scheme"},
	{"javascript:alert(1)", "scheme"},
	{"ftp://example.com/", "scheme"},
	{"https://user:pw@example.com/", "user name or password"},
	{"https://user@example.com/", "user name or password"},
	{"https://example.com/%00", "NUL"},
	{"https://example.com/?a=%00", "NUL"},
	{"https://exa%00mple.com/", "NUL"},
	{"https://example.com/\t", "byte 21"},
	{"https://example.com/\n", "percent-encode"},
	{"https://example.com/\r\nHost: x", "percent-encode"},
	{" https://example.com/", "byte 1"},
	{"https://example.com/a b", "percent-encode"},
	{"https://example.com\\@127.0.0.1/", "percent-encode"},
	{"https://exämple.com/", "xn--"},
	{"https://１２７.0.0.1/", "xn--"},
	{"https://example.com/\x00", "percent-encode"},
	{"https://example.com/#part", "after #"},
	{"https://example.com:/", "no port"},
	{"https://example.com:0/", "port 0"},
	{"https://example.com:65536/", "1 to 65535"},
	{"https://example.com:99999999999999999999/", "1 to 65535"},
	{"https://example.com:-1/", "can be read"},
	{"https://example.com:ssh/", "can be read"},
	{"https://example.com/?token=env://BELFRY_SECRET_TOKEN", "replaced in headers only"},
	{"https://env://BELFRY_SECRET_HOST/", "replaced in headers only"},
	{"https://example.com:22/", "does not speak HTTP"},
	{"https://example.com:25/", "does not speak HTTP"},
	{"https://example.com:5432/", "does not speak HTTP"},
	{"https://example.com:6379/", "does not speak HTTP"},
	{"https://example.com:9042/", "does not speak HTTP"},
	{"https://127.1/", "looks like a number"},
	{"https://127.0.1/", "looks like a number"},
	{"https://0x7f.1/", "looks like a number"},
	{"https://0x7F000001/", "looks like a number"},
	{"https://2130706433/", "looks like a number"},
	{"https://017700000001/", "looks like a number"},
	{"https://0177.0.0.1/", "looks like a number"},
	{"https://127.0.0.01/", "looks like a number"},
	{"https://1.2.3.4.5/", "looks like a number"},
	{"https://127.0.0.1./", "looks like a number"},
	{"https://256.1.1.1/", "looks like a number"},
	{"https://0/", "looks like a number"},
	{"https://[fe80::1%25eth0]/", "zone"},
	{"https://[::1%25lo]/", "zone"},
	{"https://[::1/", "can be read"},
	{"https://-a.example/", "not a name"},
	{"https://a..b/", "not a name"},
	{"https://" + strings.Repeat("a", 64) + ".example/", "not a name"},
	{"https://" + strings.Repeat("a.", 130) + "example/", "not a name"},
	{"https://ex!ample.com/", "not a name"},
	{"https://example.com/" + strings.Repeat("a", 64<<10), "at most 2048"},
}

// specialHosts need the operator's permission.
var specialHosts = []string{
	"127.0.0.1", "127.255.255.254", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
	"[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "0.0.0.0", "[::]",
	"localhost", "localhost.", "LOCALHOST", "a.localhost", "ip6-localhost", "localhost.localdomain",
	"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	"[fc00::1]", "[fd00::1]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[2001::1]",
	"169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]",
	"169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "metadata.google.internal", "metadata.google.internal.", "metadata",
}

func TestHostileURLsAreRefusedByEveryPolicy(t *testing.T) {
	everything := AddressPolicy{AllowPlainHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	for _, c := range hostileURLs {
		for _, p := range []AddressPolicy{{}, DevPolicy(), everything} {
			refused := p.CheckURL("target.http.url", c.url)
			if refused == nil {
				t.Errorf("%.60q is accepted by %v", c.url, p)
				continue
			}
			if got := refused.Problems[0]; !strings.Contains(got.Message, c.says) || got.Field != "target.http.url" {
				t.Errorf("%.60q: %q does not say %q", c.url, refused, c.says)
			}
		}
	}
}

func TestSpecialAddressesNeedPermission(t *testing.T) {
	everything := AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	for _, host := range specialHosts {
		for _, url := range []string{"https://" + host + "/", "https://" + host + ":8443/x?y", "http://" + host + "/"} {
			refused := AddressPolicy{AllowPlainHTTP: true}.CheckURL("target.http.url", url)
			if refused == nil || !strings.Contains(refused.Error(), "--allow-targets") {
				t.Errorf("%s: %v", url, refused)
			}
			if refused := everything.CheckURL("target.http.url", url); refused != nil {
				t.Errorf("%s, allowed: %v", url, refused)
			}
		}
	}
}

func TestOrdinaryURLs(t *testing.T) {
	cluster := AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	cases := []struct {
		policy AddressPolicy
		url    string
		ok     bool
	}{
		{AddressPolicy{}, "https://example.com/hook", true},
		{AddressPolicy{}, "HTTPS://Example.COM./hook?a=%20b", true},
		{AddressPolicy{}, "https://example.com:8443", true},
		{AddressPolicy{}, "https://xn--exmple-cua.com/", true},
		{AddressPolicy{}, "https://my_host.internal.example/", true},
		{AddressPolicy{}, "https://8.8.8.8/", true},
		{AddressPolicy{}, "https://[2606:4700::1111]/", true},
		{AddressPolicy{}, "http://example.com/", false},
		{AddressPolicy{}, "http://8.8.8.8/", false},
		{AddressPolicy{AllowPlainHTTP: true}, "http://example.com/", true},
		{AddressPolicy{AllowPlainHTTP: true}, "http://8.8.8.8/", true},
		{DevPolicy(), "http://127.0.0.1:8080/", true},
		{DevPolicy(), "http://localhost:8080/", true},
		{DevPolicy(), "http://[::1]:8080/", true},
		{DevPolicy(), "http://[::ffff:127.0.0.1]:8080/", true},
		{DevPolicy(), "http://10.0.0.1/", false},
		{DevPolicy(), "https://169.254.169.254/", false},
		{cluster, "http://10.1.2.3/", true},
		{cluster, "http://service.namespace.svc.cluster.local/", true}, // its address decides at the dial
		{cluster, "http://service/", true},
		{cluster, "http://8.8.8.8/", false},
		{cluster, "http://localhost/", false},
	}
	for _, c := range cases {
		if refused := c.policy.CheckURL("url", c.url); (refused == nil) != c.ok {
			t.Errorf("%v, %s: %v", c.policy, c.url, refused)
		}
	}
}

func TestRefusalsDoNotRepeatSecrets(t *testing.T) {
	for _, url := range []string{"https://u:hunter2@example.com/", "http://example.com/?token=hunter2", "https://127.1/?hunter2", "https://[::1/hunter2", "x://hunter2"} {
		if refused := (AddressPolicy{}).CheckURL("url", url); refused == nil || strings.Contains(refused.Error(), "hunter2") {
			t.Errorf("%s: %v", url, refused)
		}
	}
}

func TestOwnAddressesAreNeverTargets(t *testing.T) {
	p := DevPolicy()
	p.Deny = []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:8080"),
		netip.MustParseAddrPort("[::1]:8081"),
		netip.MustParseAddrPort("0.0.0.0:8082"),
		netip.MustParseAddrPort("127.0.0.9:0"),
	}
	for addr, ok := range map[string]bool{
		"127.0.0.1:8080": false, "[::ffff:127.0.0.1]:8080": false, "127.0.0.1:8090": true, "[::1]:8080": true, "127.0.0.2:8080": true,
		"[::1]:8081": false, "127.0.0.1:8082": false, "127.3.3.3:8082": false, "[::1]:8082": false, "127.0.0.9:8090": false,
	} {
		err := p.CheckAddr(netip.MustParseAddrPort(addr))
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v is no ErrAddress", addr, err)
		}
		if refused := p.CheckURL("url", "http://"+addr+"/"); (refused == nil) != ok {
			t.Errorf("%s: %v", addr, refused)
		}
	}
	if refused := p.CheckURL("url", "http://localhost:8082/"); refused == nil {
		t.Error("localhost reaches a denied port")
	}
}

func TestCheckAddrOfOddAddresses(t *testing.T) {
	p := AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("::/0")}}
	for _, a := range []netip.AddrPort{{}, netip.AddrPortFrom(netip.MustParseAddr("fe80::1%eth0"), 443), netip.MustParseAddrPort("[::1]:22"), netip.MustParseAddrPort("[::1]:0")} {
		if p.CheckAddr(a) == nil {
			t.Errorf("%v is allowed", a)
		}
	}
}

// A URL that passes never says an address that may not be connected.
func FuzzCheckURL(f *testing.F) {
	for _, c := range hostileURLs {
		f.Add(c.url)
	}
	for _, host := range specialHosts {
		f.Add("https://" + host)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if (AddressPolicy{}).CheckURL("url", raw) != nil {
			return
		}
		u, refused := parseTarget("url", raw)
		if refused != nil || u.Scheme != "https" || u.User != nil {
			t.Fatalf("accepted %q", raw)
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && public.SafeAddr(a.Unmap()) != nil {
			t.Fatalf("accepted the address %v", a)
		}
	})
}
