#include "keeper.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The commands that go on: their output, input and end. */

/* A piece of output is written whole or not at all, since it is no longer than what a pipe takes at once. */
#define PIECE_BYTES_MAX (PIPE_BUF - 12)
#define READ_BYTES_MAX 65536u
/* The pieces of one follower in one round. */
#define PIECES_MAX 32

/* Arguments of `keep-start` are those of `exec`, with the id in the place of the bound. */
enum { START_CALL, START_UNUSED, START_ID };

struct command {
  struct command *next;
  char id[NAME_BYTES_MAX + 1];
  struct runner runner;
  int in, out;
  struct ring ring;
  /* It has ended, and what it has printed is complete; the number counts such ends. */
  bool over;
  uint64_t ended_as;
  bool removed;
  /* Its input takes nothing now. */
  bool full;
};

static struct command *commands;
static uint64_t ends;

static struct command *find(const char *id) {
  struct command *command = commands;
  while (command != NULL && strcmp(command->id, id) != 0) command = command->next;
  return command;
}

int commands_running(void) {
  int count = 0;
  for (struct command *command = commands; command != NULL; command = command->next) count += !command->over;
  return count;
}

/* --- starting --- */

static bool launch(struct command *command, const struct fields *fields) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return false;
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return false;
  }
  const int descriptors[] = {in[0], out[1], out[1], -1};
  bool started = runner_start(&command->runner, descriptors, 4, fields, KEPT);
  close(in[0]);
  close(out[1]);
  command->in = in[1];
  command->out = out[0];
  set_nonblocking(command->in);
  set_nonblocking(command->out);
  if (started) return true;
  close_fd(&command->in);
  close_fd(&command->out);
  return false;
}

static void start(struct call *call, const struct fields *fields) {
  if (find(call->name) != NULL) {
    call_end_with(call, "ok", "");
    return;
  }
  struct command *command = commands_running() < RUNNING_MAX ? calloc(1, sizeof *command) : NULL;
  if (command == NULL) {
    call_end_with(call, "refused", "commands");
    return;
  }
  strcpy(command->id, call->name);
  runner_request = call->request;
  if (!launch(command, fields)) {
    free(command);
    call_end_with(call, "refused", "busy");
    return;
  }
  struct command **last = &commands;
  while (*last != NULL) last = &(*last)->next;
  *last = command;
  call_end_with(call, "ok", "");
}

/* --- states --- */

static void put_state(struct writer *result, const struct command *command) {
  put_text(result, !command->over ? "running" : command->runner.by_signal ? "killed" : "exited");
  if (command->over) put_number(result, command->runner.code);
  else put_text(result, "");
  put_number(result, (int64_t)command->ring.end);
  put_number(result, (int64_t)command->ring.start);
}

static void answer_states(struct call *call) {
  static uint8_t bytes[32768];
  struct writer result = {bytes, sizeof bytes, 1, false};
  put_text(&result, "ok");
  for (struct command *command = commands; command != NULL; command = command->next) {
    if (command->removed) continue;
    put_text(&result, command->id);
    put_state(&result, command);
  }
  call_end(call, &result);
}

static void answer_end(struct call *call, const struct command *command) {
  uint8_t bytes[256];
  struct writer result = {bytes, sizeof bytes, 1, false};
  put_text(&result, "ok");
  put_state(&result, command);
  call_end(call, &result);
}

/* --- calls --- */

static void begin_output(struct call *call, const struct command *command, const struct fields *fields) {
  call->position = (uint64_t)field_number(fields, 2, 0);
  call->left = (uint64_t)field_number(fields, 3, INT64_MAX);
  call->follow = field_number(fields, 4, 0) == 1;
  call->until = command->ring.end;
  char head = PACKET_HEAD;
  send(call->control, &head, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void command_call(struct call *call, const struct fields *fields) {
  const char *name = field_text(fields, 0), *id = field_text(fields, strcmp(name, "keep-start") == 0 ? START_ID : 1);
  if (strcmp(name, "keep-states") == 0) {
    answer_states(call);
    return;
  }
  if (!is_name(id)) {
    call_end_with(call, "refused", "invalid");
    return;
  }
  strcpy(call->name, id);
  struct command *command = find(id);
  bool known = command != NULL && !command->removed;
  if (strcmp(name, "keep-start") == 0) {
    start(call, fields);
  } else if (!known) {
    call_end_with(call, "refused", "unknown");
  } else if (strcmp(name, "keep-output") == 0) {
    call->kind = OUTPUT_OF;
    begin_output(call, command, fields);
  } else if (strcmp(name, "keep-ended") == 0) {
    call->kind = END_OF;
  } else if (strcmp(name, "keep-write") == 0) {
    call->kind = WRITE_TO;
    call->close_after = field_number(fields, 2, 0) == 1;
  } else if (strcmp(name, "keep-signal") == 0) {
    char packet[2] = {PACKET_SIGNAL, (char)field_number(fields, 2, SIGTERM)};
    bool sent = !command->runner.ended && send(command->runner.control, packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
    call_end_with(call, "ok", sent ? "1" : "0");
  } else if (strcmp(name, "keep-remove") == 0) {
    call->kind = REMOVAL_OF;
    command->removed = true;
    runner_kill(&command->runner);
  } else {
    call_end_with(call, "refused", "invalid");
  }
}

/* Writes what is kept from its position on: pieces with their offsets (8 bytes), their lengths (4 bytes), and as many bytes. */
static void advance_output(struct call *call, const struct command *command) {
  const struct ring *ring = &command->ring;
  bool to_the_end = call->follow;
  for (int count = 0; !call->blocked && count < PIECES_MAX; count++) {
    uint64_t end = to_the_end ? ring->end : call->until;
    if (call->position < ring->start) call->position = ring->start;
    if (call->left == 0 || call->position >= end) break;
    size_t length;
    const uint8_t *bytes = ring_at(ring, call->position, &length);
    if (length > PIECE_BYTES_MAX) length = PIECE_BYTES_MAX;
    if (length > end - call->position) length = (size_t)(end - call->position);
    if (length > call->left) length = (size_t)call->left;
    uint8_t head[12];
    put_u64(head, call->position);
    put_u32(head + 8, (uint32_t)length);
    struct iovec parts[] = {{head, sizeof head}, {(void *)(uintptr_t)bytes, length}};
    ssize_t written = writev(call->out, parts, 2);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      call->blocked = true;
    } else if (written != (ssize_t)(length + sizeof head)) {
      call_end(call, NULL);
      return;
    } else {
      call->position += length;
      call->left -= length;
    }
  }
  bool at_end = call->position >= (to_the_end ? ring->end : call->until);
  if (call->left == 0 || (at_end && (!to_the_end || command->over))) call_end_with(call, "ok", "");
  else if (!call->blocked && !at_end) wake_at(0);
}

static bool is_first_writer(const struct call *call) {
  for (const struct call *other = calls; other != call; other = other->next)
    if (!other->over && other->kind == WRITE_TO && strcmp(other->name, call->name) == 0) return false;
  return true;
}

/* Passes the caller's bytes on to the command's input. One caller after the other does so. */
static void advance_write(struct call *call, struct command *command) {
  if (!is_first_writer(call)) return;
  while (command->in >= 0 && !command->full) {
    ssize_t moved = splice(call->in, NULL, command->in, NULL, READ_BYTES_MAX, SPLICE_F_NONBLOCK);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EAGAIN) {
      int waiting = 0;
      ioctl(call->in, FIONREAD, &waiting);
      command->full = waiting > 0;
      return;
    }
    if (moved < 0) {
      close_fd(&command->in);
    } else if (moved > 0) {
      call->taken = true;
    } else {
      /* The caller says that its input was whole before it closes it, perhaps since this round asked. */
      call_obey(call);
      if (call->over) return;
      if (call->whole && call->close_after) close_fd(&command->in);
      call_end_with(call, "ok", "1");
      return;
    }
  }
  if (command->in >= 0) return;
  /* It has ended, or has closed its input, perhaps after it had taken everything. */
  char rest;
  ssize_t more = call->taken ? read(call->in, &rest, 1) : 1;
  if (more == 0) call_end_with(call, "ok", "1");
  else if (more > 0 || (errno != EAGAIN && errno != EINTR)) call_end_with(call, "ok", "0");
}

void command_advance_call(struct call *call) {
  struct command *command = find(call->name);
  if (call->kind == REMOVAL_OF) {
    if (command == NULL) call_end_with(call, "ok", "");
    return;
  }
  if (command == NULL || command->removed) {
    if (call->kind == WRITE_TO) call_end_with(call, "ok", "0");
    else call_end_with(call, call->kind == OUTPUT_OF ? "ok" : "refused", "unknown");
  } else if (call->kind == OUTPUT_OF) {
    advance_output(call, command);
  } else if (call->kind == WRITE_TO) {
    advance_write(call, command);
  } else if (command->over) {
    answer_end(call, command);
  }
}

/* --- each round --- */

static void read_output(void *of) {
  struct command *command = of;
  if (command->out < 0) return;
  ssize_t got = ring_read(&command->ring, command->out, READ_BYTES_MAX);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR && errno != ENOMEM)) close_fd(&command->out);
}

static void listen_to(void *of) {
  runner_listen(&((struct command *)of)->runner);
}

static void unblock_input(void *of) {
  ((struct command *)of)->full = false;
}

static void unblock_reader(void *of) {
  ((struct call *)of)->blocked = false;
}

/* The round after this one does it. */
static void see(void *unused) {
  (void)unused;
}

void commands_watch(void) {
  for (struct command *command = commands; command != NULL; command = command->next) {
    if (command->over) continue;
    watch(command->out, POLLIN, read_output, command);
    watch(command->runner.control, POLLIN, listen_to, command);
    if (command->full) watch(command->in, POLLOUT, unblock_input, command);
  }
  for (struct call *call = calls; call != NULL; call = call->next) {
    if (call->over) continue;
    if (call->kind == OUTPUT_OF && call->blocked) watch(call->out, POLLOUT, unblock_reader, call);
    struct command *command = call->kind == WRITE_TO && is_first_writer(call) ? find(call->name) : NULL;
    if (command != NULL && !command->full) watch(call->in, POLLIN, see, NULL);
  }
}

/* Its processes have ended: what they printed is all there will be. */
static void conclude(struct command *command) {
  int waiting = 0;
  if (command->out >= 0) ioctl(command->out, FIONREAD, &waiting);
  while (waiting > 0) {
    ssize_t got = ring_read(&command->ring, command->out, (size_t)waiting);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    waiting -= (int)got;
  }
  close_fd(&command->in);
  close_fd(&command->out);
  ring_shrink(&command->ring, KEPT_BYTES_MAX);
  command->full = false;
  command->over = true;
  command->ended_as = ++ends;
}

static void forget(struct command *command) {
  struct command **at = &commands;
  while (*at != command) at = &(*at)->next;
  *at = command->next;
  ring_shrink(&command->ring, 0);
  free(command);
}

/* Forgets the commands that ended first, beyond the number that is kept, and their outputs beyond the memory for those. */
static void bound_ended(void) {
  int count = 0;
  size_t bytes = 0;
  for (struct command *command = commands; command != NULL; command = command->next)
    if (command->over) {
      count++;
      bytes += command->ring.capacity;
    }
  while (count > ENDED_MAX || bytes > ENDED_BYTES_MAX) {
    struct command *oldest = NULL;
    for (struct command *command = commands; command != NULL; command = command->next)
      if (command->over && (count > ENDED_MAX || command->ring.capacity > 0) && (oldest == NULL || command->ended_as < oldest->ended_as))
        oldest = command;
    bytes -= oldest->ring.capacity;
    ring_shrink(&oldest->ring, 0);
    if (count <= ENDED_MAX) continue;
    forget(oldest);
    count--;
  }
}

void commands_advance(void) {
  bool changed = false;
  struct command *next;
  for (struct command *command = commands; command != NULL; command = next) {
    next = command->next;
    if (command->over || !command->runner.ended) continue;
    conclude(command);
    changed = true;
  }
  for (struct command *command = commands; command != NULL; command = next) {
    next = command->next;
    if (command->over && command->removed) forget(command);
  }
  if (changed) bound_ended();
}

bool commands_reap(pid_t pid) {
  for (struct command *command = commands; command != NULL; command = command->next)
    if (runner_reap(&command->runner, pid)) return true;
  return false;
}

bool commands_own(pid_t pid) {
  for (struct command *command = commands; command != NULL; command = command->next)
    if (command->runner.pid == pid && !command->runner.ended) return true;
  return false;
}

bool commands_empty(void) {
  return commands == NULL;
}

void commands_kill(void) {
  for (struct command *command = commands; command != NULL; command = command->next) runner_kill(&command->runner);
}
