package node

import (
	"context"
	"log/slog"
)

// library is the log of a library that tells at Info what only its developers
// want to know: that is Debug here. Warnings and errors stay what they are.
type library struct{ slog.Handler }

func (l library) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, lowered(level))
}

func (l library) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)
	return l.Handler.Handle(ctx, r)
}

func (l library) WithAttrs(attrs []slog.Attr) slog.Handler {
	return library{l.Handler.WithAttrs(attrs)}
}

func (l library) WithGroup(name string) slog.Handler { return library{l.Handler.WithGroup(name)} }

func lowered(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
