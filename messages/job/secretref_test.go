package job

import (
	"strings"
	"testing"
)

func TestParseSecretRef(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]SecretRef{
		"env://BELFRY_SECRET_STRIPE":     {Env: "BELFRY_SECRET_STRIPE"},
		"env://BELFRY_SECRET_A_1":        {Env: "BELFRY_SECRET_A_1"},
		"file:///run/secrets/stripe":     {Path: "/run/secrets/stripe"},
		"file:///run/secrets/..data/a b": {Path: "/run/secrets/..data/a b"},
	} {
		if got, err := ParseSecretRef(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "hunter2", "env://", "env://PATH", "env://BELFRY_SECRET_", "env://BELFRY_SECRET_a", "env://BELFRY_SECRET_A\n", "env://BELFRY_SECRET_A=b",
		"env://belfry_secret_A", "ENV://BELFRY_SECRET_A", "file://", "file:///", "file://etc/passwd", "file:///run/../etc/passwd", "file:///run//a", "file:///run/a/",
		"file:///run/./a", "file:///a\x00b", "vault://a", "env://BELFRY_SECRET_" + strings.Repeat("A", MaxSecretRef),
	} {
		if got, err := ParseSecretRef(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		} else if len(text) > len("file:///") && strings.Contains(err.Error(), text) {
			t.Errorf("%q is repeated: %v", text, err)
		}
	}
}

func TestFindSecretRef(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]string{
		"env://BELFRY_SECRET_A":        {"", "env://BELFRY_SECRET_A"},
		"Bearer env://BELFRY_SECRET_A": {"Bearer ", "env://BELFRY_SECRET_A"},
		"a b file:///x":                {"a b ", "file:///x"},
	} {
		if before, ref, found := FindSecretRef(value); !found || before != want[0] || ref != want[1] {
			t.Errorf("%s: %q, %q, %v", value, before, ref, found)
		}
	}
	for _, value := range []string{"", "Bearer x", "https://example.com", "see env://A for more", "xenv://BELFRY_SECRET_A"} {
		if _, ref, found := FindSecretRef(value); found {
			t.Errorf("%q refers to %q", value, ref)
		}
	}
}

func TestHeadersReferToSecretsOfJobsOnly(t *testing.T) {
	t.Parallel()
	for value, refused := range map[string]bool{
		"Bearer env://BELFRY_SECRET_A": false, "file:///run/secrets/a": false,
		"env://AWS_SECRET_ACCESS_KEY": true, "Bearer file:///run/../etc/shadow": true,
		// These would be sent as they are written.
		"env://BELFRY_SECRET_A trailing": true, "ENV://BELFRY_SECRET_A": true, "Bearer:env://BELFRY_SECRET_A": true,
		"env://BELFRY_SECRET_A env://BELFRY_SECRET_B": true, "Digest user=\"env://BELFRY_SECRET_A\"": true,
	} {
		if got := CheckHeaders("f", map[string]string{"Authorization": value}); (len(got) > 0) != refused {
			t.Errorf("%s: %v", value, got)
		}
	}
}
