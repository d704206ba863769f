#include "keeper.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

/*
 * The shells of sessions. A shell reads lines from a pipe; each line has it read the script of one command from a file in memory, and then say
 * with which status that ended. What it printed up to then is the command's output.
 */

/* Arguments of `session`. Up to HELPER they are those of `exec`. */
enum { CALL, TIMEOUT, BOUND, FOLDER, HELPER, NAME, IDLE, SCRIPT };
/* The descriptors of a shell: the script, the command's input, the statuses, and the lines. A shell knows numbers of one digit alone. */
enum { SHELL_SCRIPT = 6, SHELL_INPUT, SHELL_STATUS, SHELL_LINES, SHELL_DESCRIPTORS };
#define PASS_BYTES_MAX (1u << 20)

enum state { WAITING, READING_INPUT, RUNNING, DRAINING, ENDING };

struct shell_output {
  struct session *session;
  int from;
  /* Its reader takes nothing now. */
  bool blocked;
  /* DRAINING: the bytes that still belong to the command. */
  int left;
};

struct session {
  struct session *next;
  char name[NAME_BYTES_MAX + 1];
  struct runner runner;
  enum state state;
  struct call *active;
  int lines, script, input, status;
  struct shell_output outputs[2];
  size_t input_bytes;
  /* The command's number, which its status has to begin with. */
  unsigned number;
  char said[64];
  size_t said_length;
  int code;
  bool late;
  uint64_t idle_since, idle_ms;
};

static struct session *sessions;

static struct session *find(const char *name) {
  struct session *session = sessions;
  while (session != NULL && strcmp(session->name, name) != 0) session = session->next;
  return session;
}

void session_call(struct call *call, const struct fields *fields) {
  const char *name = field_text(fields, NAME);
  if (!is_name(name) || fields->count != SCRIPT + 1) {
    call_end_with(call, "refused", "invalid");
    return;
  }
  strcpy(call->name, name);
  call->kind = IN_SESSION;
  call->deadline = now_ms() + (uint64_t)field_number(fields, TIMEOUT, 0);
  call->idle_ms = (uint64_t)field_number(fields, IDLE, 0);
  /* They stand in the request, which lasts as long as the call. */
  call->folder = field_text(fields, FOLDER);
  call->helper = field_text(fields, HELPER);
  call->script = field_text(fields, SCRIPT);
}

/* --- starting --- */

static bool make(struct session *session, struct call *call) {
  int lines[2] = {-1, -1}, status[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
  session->script = memfd_create("script", MFD_CLOEXEC);
  session->input = memfd_create("input", MFD_CLOEXEC);
  bool complete = session->script >= 0 && session->input >= 0 && pipe2(lines, O_CLOEXEC) == 0 && pipe2(status, O_CLOEXEC) == 0 &&
                  pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
  if (complete) {
    const int descriptors[SHELL_DESCRIPTORS] = {nowhere, out[1], err[1], -1, -1, -1, session->script, session->input, status[1], lines[0]};
    static struct fields shell;
    const char *words[] = {"session", "0", "", call->folder, call->helper, "0"};
    shell.count = (int)(sizeof words / sizeof *words);
    memcpy(shell.at, words, sizeof words);
    runner_request = NULL;
    complete = runner_start(&session->runner, descriptors, SHELL_DESCRIPTORS, &shell, SESSION);
  }
  close_fd(&lines[0]);
  close_fd(&status[1]);
  close_fd(&out[1]);
  close_fd(&err[1]);
  session->lines = lines[1];
  session->status = status[0];
  session->outputs[0] = (struct shell_output){session, out[0], false, 0};
  session->outputs[1] = (struct shell_output){session, err[0], false, 0};
  if (!complete) return false;
  set_nonblocking(session->lines);
  set_nonblocking(session->status);
  set_nonblocking(out[0]);
  set_nonblocking(err[0]);
  /* The shell has opened its lines by their path, and nobody else is to read them. */
  static const char first[] = "exec 9<&-\n";
  return write(session->lines, first, sizeof first - 1) == (ssize_t)sizeof first - 1;
}

static void release(struct session *session) {
  close_fd(&session->lines);
  close_fd(&session->script);
  close_fd(&session->input);
  close_fd(&session->status);
  close_fd(&session->outputs[0].from);
  close_fd(&session->outputs[1].from);
  runner_kill(&session->runner);
}

/* Makes the session that the call names. It waits while one of that name ends. */
static void provide(struct call *call) {
  int count = 0, live = 0;
  for (struct session *session = sessions; session != NULL; session = session->next) {
    count++;
    live += session->state != ENDING;
  }
  if (live >= SESSIONS_MAX) {
    call_end_with(call, "refused", "sessions");
    return;
  }
  if (count >= 2 * SESSIONS_MAX) return;
  struct session *session = calloc(1, sizeof *session);
  if (session == NULL) {
    call_end_with(call, "refused", "busy");
    return;
  }
  strcpy(session->name, call->name);
  session->runner.control = -1;
  session->idle_ms = call->idle_ms;
  session->idle_since = now_ms();
  if (make(session, call)) {
    session->next = sessions;
    sessions = session;
    return;
  }
  release(session);
  free(session);
  call_end_with(call, "refused", "busy");
}

/* --- one command --- */

static void begin(struct session *session, struct call *call) {
  session->active = call;
  session->idle_ms = call->idle_ms;
  call->session = session;
  session->input_bytes = 0;
  session->late = false;
  session->outputs[0].blocked = session->outputs[1].blocked = false;
  session->state = READING_INPUT;
  if (ftruncate(session->input, 0) != 0 || lseek(session->input, 0, SEEK_SET) != 0) runner_kill(&session->runner);
}

static void release_call(struct session *session) {
  if (session->active != NULL) session->active->session = NULL;
  session->active = NULL;
}

/* Lets the next command have its turn. */
static void rest(struct session *session) {
  release_call(session);
  session->state = WAITING;
  session->idle_since = now_ms();
  /* Nothing of a command is kept once it has ended. */
  if (ftruncate(session->input, 0) != 0 || ftruncate(session->script, 0) != 0) runner_kill(&session->runner);
}

static void kill_session(struct session *session) {
  runner_kill(&session->runner);
  session->state = ENDING;
}

static bool hand_script(struct session *session) {
  static const char redirected[] = " <&7 6<&- 7<&- 8>&-\n";
  const char *script = session->active->script;
  size_t length = strlen(script);
  char line[128];
  session->said_length = 0;
  session->number++;
  int size = snprintf(line, sizeof line, "command . /proc/self/fd/6; { echo %u:$? >&8; } 2>&-\n", session->number);
  return lseek(session->input, 0, SEEK_SET) == 0 && ftruncate(session->script, 0) == 0 && lseek(session->script, 0, SEEK_SET) == 0 &&
         write_all(session->script, script, length) && write_all(session->script, redirected, sizeof redirected - 1) &&
         write(session->lines, line, (size_t)size) == size;
}

/* Keeps the whole input before the command begins, as a shell has no pipe of its own for each. */
static void read_input(void *of) {
  static uint8_t bytes[65536];
  struct session *session = of;
  struct call *call = session->active;
  if (session->state != READING_INPUT || call == NULL || call->over) return;
  ssize_t got = read(call->in, bytes, sizeof bytes);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  session->input_bytes += got > 0 ? (size_t)got : 0;
  if (session->input_bytes > SESSION_INPUT_BYTES_MAX) {
    call_end_with(call, "refused", "input");
    rest(session);
    return;
  }
  if (got > 0) {
    if (!write_all(session->input, bytes, (size_t)got)) kill_session(session);
    return;
  }
  close_fd(&call->in);
  /* An input that broke off is of a caller who has gone, though its socket may end a moment later. */
  call_obey(call);
  if (!call->whole) {
    call_end(call, NULL);
    rest(session);
    return;
  }
  session->state = RUNNING;
  if (!hand_script(session)) kill_session(session);
}

static int waiting_bytes(int fd) {
  int bytes = 0;
  return fd >= 0 && ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

static void drain(struct session *session, int code) {
  session->code = code;
  session->state = DRAINING;
  for (int i = 0; i < 2; i++) session->outputs[i].left = waiting_bytes(session->outputs[i].from);
}

/* Reads the number of the command and its status, as in "12:0". */
static void read_status(void *of) {
  struct session *session = of;
  ssize_t got = read(session->status, session->said + session->said_length, sizeof session->said - 1 - session->said_length);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    /* The shell has ended, which its runner will say, or has closed it, so that the deadline ends it. */
    close_fd(&session->status);
    return;
  }
  session->said_length += (size_t)got;
  session->said[session->said_length] = 0;
  char *end = strchr(session->said, '\n');
  if (end == NULL && session->said_length < sizeof session->said - 1) return;
  unsigned number;
  int code;
  bool is_answer = sscanf(session->said, "%u:%d", &number, &code) == 2 && number == session->number;
  session->said_length = 0;
  if (is_answer && session->state == RUNNING) drain(session, code & 255);
}

/* --- output --- */

static void pass(void *of) {
  struct shell_output *output = of;
  struct session *session = output->session;
  struct call *call = session->active;
  if (output->from < 0) return;
  int *to = call == NULL || call->over || session->state == READING_INPUT ? NULL : output == &session->outputs[0] ? &call->out : &call->err;
  bool wanted = to != NULL && *to >= 0;
  size_t most = PASS_BYTES_MAX;
  if (session->state == DRAINING && wanted) {
    if (output->left == 0) return;
    most = (size_t)output->left;
  }
  ssize_t moved = splice(output->from, NULL, wanted ? *to : nowhere, NULL, most, SPLICE_F_NONBLOCK);
  if (moved < 0 && errno == EINTR) return;
  if (moved < 0 && errno == EAGAIN) {
    output->blocked = wanted && waiting_bytes(output->from) > 0;
  } else if (moved < 0 && wanted) {
    /* Nobody reads it any more. */
    close_fd(to);
    output->left = 0;
  } else if (moved <= 0) {
    close_fd(&output->from);
    output->left = 0;
  } else if (session->state == DRAINING) {
    output->left -= (int)moved;
  }
}

static void unblock(void *of) {
  ((struct shell_output *)of)->blocked = false;
}

static void listen_to(void *of) {
  runner_listen(&((struct session *)of)->runner);
}

static void watch_outputs(struct session *session) {
  struct call *call = session->active;
  for (int i = 0; i < 2; i++) {
    struct shell_output *output = &session->outputs[i];
    if (output->blocked && call != NULL && !call->over) watch(i == 0 ? call->out : call->err, POLLOUT, unblock, output);
    else if (session->state != DRAINING || output->left > 0) watch(output->from, POLLIN, pass, output);
  }
}

void sessions_watch(void) {
  for (struct session *session = sessions; session != NULL; session = session->next) {
    watch(session->status, POLLIN, read_status, session);
    watch(session->runner.control, POLLIN, listen_to, session);
    watch_outputs(session);
    if (session->state == READING_INPUT) watch(session->active->in, POLLIN, read_input, session);
    if (session->state == WAITING) wake_at(session->idle_since + session->idle_ms);
  }
  for (struct call *call = calls; call != NULL; call = call->next)
    if (call->kind == IN_SESSION && !call->over) wake_at(call->deadline);
}

/* --- each round --- */

static void conclude(struct session *session) {
  struct call *call = session->active;
  if (!call->over) call_end_exit(call, session->code, session->late);
  rest(session);
}

static void advance(struct session *session, uint64_t now) {
  struct call *call = session->active;
  if (session->runner.ended) {
    if (call != NULL && session->state != DRAINING) drain(session, session->late ? 128 + SIGKILL : session->runner.code);
  } else if (call != NULL && (session->state == READING_INPUT || session->state == RUNNING)) {
    session->late = !call->over && now >= call->deadline;
    bool ends = call->over || session->late, has_begun = session->state == RUNNING;
    if (ends && session->late && !has_begun) call_end_exit(call, 128 + SIGKILL, true);
    if (ends && has_begun) kill_session(session);
    if (ends && !has_begun) rest(session);
  }
  if (call != NULL && session->state == DRAINING) {
    bool drained = (session->outputs[0].left == 0 || call->out < 0) && (session->outputs[1].left == 0 || call->err < 0);
    if (call->over || drained) conclude(session);
  }
  if (call != NULL && call->over && session->state == ENDING) release_call(session);
  if (session->state == WAITING && !session->runner.ended && now >= session->idle_since + session->idle_ms) kill_session(session);
}

static void give_turn(struct call *call) {
  struct session *session = find(call->name);
  if (session == NULL) {
    provide(call);
    session = find(call->name);
  }
  if (session != NULL && session->state == WAITING && !session->runner.ended) begin(session, call);
}

static void sweep(void) {
  struct session **at = &sessions;
  while (*at != NULL) {
    struct session *session = *at;
    if (session->runner.ended && session->active == NULL) {
      *at = session->next;
      release(session);
      free(session);
    } else {
      at = &session->next;
    }
  }
}

void sessions_advance(uint64_t now) {
  for (struct session *session = sessions; session != NULL; session = session->next) advance(session, now);
  sweep();
  for (struct call *call = calls; call != NULL; call = call->next) {
    if (call->kind != IN_SESSION || call->over || call->session != NULL) continue;
    if (now >= call->deadline) call_end_exit(call, 128 + SIGKILL, true);
    else give_turn(call);
  }
}

bool sessions_reap(pid_t pid) {
  for (struct session *session = sessions; session != NULL; session = session->next)
    if (runner_reap(&session->runner, pid)) return true;
  return false;
}

bool sessions_own(pid_t pid) {
  for (struct session *session = sessions; session != NULL; session = session->next)
    if (session->runner.pid == pid && !session->runner.ended) return true;
  return false;
}

bool sessions_empty(void) {
  return sessions == NULL;
}

void sessions_kill(void) {
  for (struct session *session = sessions; session != NULL; session = session->next) runner_kill(&session->runner);
}
