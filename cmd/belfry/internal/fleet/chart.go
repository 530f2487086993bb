package fleet

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// The chart: what runs is filled, what would run with jitter and with H is drawn
// as lines. A minute is a step of the curve.
const (
	chartWidth, chartHeight = 960.0, 320.0
	left, right, top, foot  = 60.0, 20.0, 40.0, 40.0
)

// SVG draws the load.
func (l *Load) SVG(w io.Writer) error {
	now := make([]float64, len(l.Minutes))
	for i, n := range l.Minutes {
		now[i] = float64(n)
	}
	most := math.Max(1, math.Max(peak(now), math.Max(peak(l.Jittered), peak(l.Hashed))))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<title>Executions a minute, %s to %s</title>`+"\n", l.From.UTC().Format(time.RFC3339), l.To.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", chartWidth, chartHeight)
	l.axes(&b, most)
	base := chartHeight - foot
	fmt.Fprintf(&b, `<path d="%sV%.1fH%gZ" fill="#9db8d9"/>`+"\n", l.curve(now, most), base, left)
	fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#c2571a" stroke-width="1.5"/>`+"\n", l.curve(l.Jittered, most))
	fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#2f7d46" stroke-width="1.5" stroke-dasharray="4 3"/>`+"\n", l.curve(l.Hashed, most))
	for i, name := range []string{"as it is", "with jitter " + l.Jitter.String(), "with H for the minute"} {
		x := left + float64(i)*180
		fmt.Fprintf(&b, `<rect x="%g" y="14" width="12" height="12" fill="%s"/><text x="%g" y="24">%s</text>`+"\n", x, []string{"#9db8d9", "#c2571a", "#2f7d46"}[i], x+18, name)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// curve is the path over all minutes, from the base line on.
func (l *Load) curve(values []float64, most float64) string {
	var b strings.Builder
	base := chartHeight - foot
	fmt.Fprintf(&b, "M%g %g", left, base)
	wide, last := (chartWidth-left-right)/float64(max(len(values), 1)), -1.0
	for i, v := range values {
		if v == last {
			continue
		}
		last = v
		fmt.Fprintf(&b, "H%.2fV%.1f", left+float64(i)*wide, base-v/most*(base-top))
	}
	fmt.Fprintf(&b, "H%g", chartWidth-right)
	return b.String()
}

// axes labels the peak, and about eight instants.
func (l *Load) axes(b *strings.Builder, most float64) {
	base := chartHeight - foot
	fmt.Fprintf(b, `<path d="M%g %gV%gH%g" fill="none" stroke="#555"/>`+"\n", left, top, base, chartWidth-right)
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="end">%.0f</text><text x="%g" y="%g" text-anchor="end">0</text>`+"\n", left-6, top+4, most, left-6, base)
	const labels = 8
	for i := range labels + 1 {
		at := l.From.Add(l.To.Sub(l.From) * time.Duration(i) / labels)
		x := left + (chartWidth-left-right)*float64(i)/labels
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x, base+18, at.UTC().Format("01-02 15:04"))
	}
}

func peak(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = math.Max(most, v)
	}
	return most
}

// Peaks is the most a minute has: as it is, with jitter, with H.
func (l *Load) Peaks() (now int64, jittered, hashed float64) {
	for _, n := range l.Minutes {
		now = max(now, n)
	}
	return now, peak(l.Jittered), peak(l.Hashed)
}
