/*
 * The keeper: one process for each container, which holds the commands that go on after the call that started them, and the shells of sessions.
 * keeper.c is its loop, keep-calls.c what is asked of it, kept-commands.c and sessions.c what it holds.
 */
#ifndef KEEPER_H
#define KEEPER_H
#include "supervisor.h"

#define NAME_BYTES_MAX 64
#define RUNNING_MAX 16
#define ENDED_MAX 50
#define SESSIONS_MAX 8
/* Calls under way, beyond which no more are accepted. */
#define CALLS_MAX 128
/* The output of one command that is kept, and that of all commands together that have ended. */
#define KEPT_BYTES_MAX (1u << 20)
#define ENDED_BYTES_MAX (8u << 20)
/* The input of one command of a session, which is kept in memory while it runs. */
#define SESSION_INPUT_BYTES_MAX (8u << 20)

/* --- ring.c: the newest bytes of an output, by their offsets in the whole of it --- */

struct ring {
  uint8_t *bytes;
  size_t capacity;
  /* The offsets of the first byte that is kept, and after the last one. */
  uint64_t start, end;
};

/* Reads once into the ring, in place of the oldest bytes if there is no more room. Returns as `read`. */
ssize_t ring_read(struct ring *ring, int fd, size_t most);
/* Returns the byte at the offset, and how many follow it in one piece. */
const uint8_t *ring_at(const struct ring *ring, uint64_t offset, size_t *length);
/* Keeps no more memory than the bytes need, and no more bytes than this. */
void ring_shrink(struct ring *ring, size_t most);

/* --- what looks after a command or a shell, as `runner.c` does --- */

struct runner {
  pid_t pid;
  int control;
  /* It has ended, and with it everything that its command had started. */
  bool ended;
  int code;
  bool by_signal;
};

/* Starts a runner with these descriptors, of which -1 is none. The fields are those of `exec`. */
bool runner_start(struct runner *runner, const int *descriptors, int count, const struct fields *fields, enum runner_kind kind);
/* Tells it to kill the command with all that it started, and to end. */
void runner_kill(struct runner *runner);
void runner_listen(struct runner *runner);
/* Notes the end of a child; returns whether it is this runner. */
bool runner_reap(struct runner *runner, pid_t pid);

/* --- calls --- */

enum call_kind { INCOMING, OUTPUT_OF, END_OF, WRITE_TO, REMOVAL_OF, IN_SESSION };

struct command;
struct session;

struct call {
  struct call *next;
  enum call_kind kind;
  /* It is over, and is freed at the end of the round. */
  bool over;
  /* Where the call comes from, until it has come whole. */
  int connection;
  uint64_t since;
  int in, out, err, control;
  uint8_t *request;
  uint32_t wanted, received;
  /* The id of the command or the name of the session. */
  char name[NAME_BYTES_MAX + 1];
  /* The input was sent whole. */
  bool whole;
  /* What it writes to takes nothing now. */
  bool blocked;
  /* OUTPUT_OF: the next byte, the byte to end before, and the bytes that are still wanted. */
  uint64_t position, until, left;
  bool follow;
  /* WRITE_TO: the input is closed after it; the command has taken a part of it. */
  bool close_after, taken;
  /* IN_SESSION */
  uint64_t deadline, idle_ms;
  const char *folder, *helper, *script;
  struct session *session;
};

extern struct call *calls;

/* Ends the call with the result. */
void call_end(struct call *call, struct writer *result);
void call_end_with(struct call *call, const char *word, const char *detail);
void call_end_exit(struct call *call, int code, bool late);
/* Notes what the caller has said: that its input was sent whole, or by the end of its control socket that it has gone. */
void call_obey(void *call);
void call_accept(int listener);
/* Does what each call is waiting for, as far as that can be done now. */
void calls_advance(uint64_t now);
void calls_watch(void);
void calls_sweep(void);
int calls_count(void);
bool is_name(const char *text);

/* --- kept-commands.c --- */

void command_call(struct call *call, const struct fields *fields);
void command_advance_call(struct call *call);
void commands_advance(void);
void commands_watch(void);
bool commands_reap(pid_t pid);
bool commands_own(pid_t pid);
bool commands_empty(void);
void commands_kill(void);
int commands_running(void);

/* --- sessions.c --- */

void session_call(struct call *call, const struct fields *fields);
void sessions_advance(uint64_t now);
void sessions_watch(void);
bool sessions_reap(pid_t pid);
bool sessions_own(pid_t pid);
bool sessions_empty(void);
void sessions_kill(void);

/* --- keeper.c --- */

/* Calls the function when the descriptor is ready, in this round. */
void watch(int fd, short events, void (*handle)(void *), void *owner);
/* Lets the next round begin at this time at the latest. */
void wake_at(uint64_t time);
/* /dev/null */
extern int nowhere;

#endif
