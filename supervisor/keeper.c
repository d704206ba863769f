#include "keeper.h"
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * 1. Commands and shells are children's children: each has a runner, which ends everything that its command started, also when this process
 *    ends, as it then sees the end of its control socket.
 * 2. Nothing here blocks, and no reader holds a command up: what a follower does not read in time is gone for it.
 * 3. Whatever is freed is freed between two rounds, so that what is found ready in one can be trusted.
 */

/* The time after which a keeper that holds nothing ends, ms. The next call starts another one. */
#define IDLE_MS 60000
/* The time for everything to end once the agent has, ms. */
#define ENDING_MS_MAX 10000
#define AGENT_CHECK_MS 1000

struct watched {
  void (*handle)(void *);
  void *owner;
};

static struct pollfd wanted[4 + RUNNING_MAX * 4 + SESSIONS_MAX * 2 * 6 + CALLS_MAX * 4];
static struct watched watches[sizeof wanted / sizeof *wanted];
static int wanted_count;
static uint64_t wake_time;
static int signals, calls_listener;
static bool strays;
int nowhere;

void watch(int fd, short events, void (*handle)(void *), void *owner) {
  if (fd < 0 || wanted_count == (int)(sizeof wanted / sizeof *wanted)) return;
  wanted[wanted_count] = (struct pollfd){fd, events, 0};
  watches[wanted_count++] = (struct watched){handle, owner};
}

void wake_at(uint64_t time) {
  if (time < wake_time) wake_time = time;
}

/* --- runners --- */

bool runner_start(struct runner *runner, const int *descriptors, int count, const struct fields *fields, enum runner_kind kind) {
  int control[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) return false;
  pid_t pid = fork();
  if (pid == 0) {
    int from[16];
    for (int i = 0; i < count; i++) from[i] = i == WORKER_CONTROL ? control[1] : descriptors[i];
    place_descriptors(from, count);
    signal(SIGPIPE, SIG_DFL);
    run_command(fields, kind);
  }
  close(control[1]);
  if (pid < 0) {
    close(control[0]);
    return false;
  }
  *runner = (struct runner){pid, control[0], false, 128 + SIGKILL, true};
  return true;
}

void runner_kill(struct runner *runner) {
  close_fd(&runner->control);
}

void runner_listen(struct runner *runner) {
  static struct fields fields;
  uint8_t packet[256];
  while (runner->control >= 0) {
    ssize_t got = recv(runner->control, packet, sizeof packet - 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      close_fd(&runner->control);
    } else if (packet[0] == PACKET_RESULT && fields_parse(&fields, packet + 1, (size_t)got - 1)) {
      runner->code = (int)field_number(&fields, 1, runner->code);
      runner->by_signal = field_number(&fields, 3, 0) == 1;
    }
  }
}

bool runner_reap(struct runner *runner, pid_t pid) {
  if (runner->ended || runner->pid != pid) return false;
  runner_listen(runner);
  close_fd(&runner->control);
  runner->ended = true;
  return true;
}

static bool is_runner(pid_t pid) {
  return commands_own(pid) || sessions_own(pid);
}

static void reap(void *unused) {
  (void)unused;
  struct signalfd_siginfo signal;
  while (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) continue;
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
    /* Whoever killed a runner has left what it looked after to this process. */
    if ((commands_reap(pid) || sessions_reap(pid)) && WIFSIGNALED(status)) strays = true;
}

/* --- the loop --- */

static void accept_call(void *unused) {
  (void)unused;
  call_accept(calls_listener);
}

static void note_end(void *has_ended) {
  *(bool *)has_ended = true;
}

static bool is_empty(void) {
  return commands_empty() && sessions_empty() && calls == NULL;
}

static void round_of_calls(int agent, bool *agent_ended) {
  wake_time = UINT64_MAX;
  wanted_count = 0;
  watch(signals, POLLIN, reap, NULL);
  if (calls_count() < CALLS_MAX) watch(calls_listener, POLLIN, accept_call, NULL);
  if (!*agent_ended) watch(agent, POLLIN, note_end, agent_ended);
  uint64_t now = now_ms();
  commands_advance();
  sessions_advance(now);
  calls_advance(now);
  calls_sweep();
  if (strays) {
    strays = kill_children(is_runner) > 0;
    if (strays) wake_at(now + 20);
  }
  commands_watch();
  sessions_watch();
  calls_watch();
}

static void wait_for_something(uint64_t latest) {
  wake_at(latest);
  uint64_t now = now_ms();
  uint64_t pause = wake_time <= now ? 0 : wake_time - now;
  if (poll(wanted, (nfds_t)wanted_count, pause > INT_MAX ? -1 : (int)pause) < 0 && errno != EINTR) die("poll");
  for (int i = 0; i < wanted_count; i++)
    if (wanted[i].revents != 0) watches[i].handle(watches[i].owner);
}

/* Ends everything, and then this process. */
static void end_all(void) __attribute__((noreturn));
static void end_all(void) {
  uint64_t began = now_ms();
  commands_kill();
  sessions_kill();
  while (waitpid(-1, NULL, WNOHANG) >= 0 && now_ms() - began < ENDING_MS_MAX) {
    kill_children(is_runner);
    poll(NULL, 0, 5);
  }
  _exit(0);
}

static void run_loop(int listener, pid_t agent) __attribute__((noreturn));
static void run_loop(int listener, pid_t agent) {
  calls_listener = listener;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  unblock_signals();
  signal(SIGPIPE, SIG_IGN);
  signals = watch_children();
  nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere < 0) die("/dev/null");
  int watched_agent = -1;
#ifdef SYS_pidfd_open
  if (agent > 0) watched_agent = (int)syscall(SYS_pidfd_open, agent, 0);
#endif
  bool agent_ended = false;
  uint64_t idle_since = now_ms();
  for (;;) {
    round_of_calls(watched_agent, &agent_ended);
    uint64_t now = now_ms();
    if (agent > 0 && watched_agent < 0 && kill(agent, 0) != 0 && errno == ESRCH) agent_ended = true;
    if (agent_ended) end_all();
    if (!is_empty()) idle_since = now;
    else if (agent == 0 && now - idle_since >= IDLE_MS) _exit(0);
    uint64_t latest = agent == 0 ? idle_since + IDLE_MS : watched_agent < 0 ? now + AGENT_CHECK_MS : UINT64_MAX;
    wait_for_something(agent == 0 && !is_empty() ? UINT64_MAX : latest);
  }
}

void run_keeper(int listener) {
  hide();
  place_descriptors((const int[]){0, 1, 2, listener}, 4);
  run_loop(3, 0);
}

int run_keeper_at(const char *name, pid_t agent) {
  umask(077);
  char lock_name[PATH_MAX];
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (agent <= 0 || strlen(name) >= sizeof at.sun_path) die("keep");
  snprintf(lock_name, sizeof lock_name, "%s.lock", name);
  strcpy(at.sun_path, name);
  int lock = open(lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) die(lock_name);
  /* Another one holds the commands already. */
  bool is_first = flock(lock, LOCK_EX | LOCK_NB) == 0;
  int listener = -1;
  if (is_first) {
    unlink(name);
    listener = listen_at(&at, sizeof at);
    if (listener < 0) die(name);
  }
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || chdir("/") != 0) die("/dev/null");
  if (!write_all(STDOUT_FILENO, "ready\n", 6)) _exit(125);
  if (!is_first) return 0;
  for (int fd = 0; fd < 3; fd++) dup2(nothing, fd);
  run_loop(listener, agent);
}
