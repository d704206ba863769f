#include "supervisor.h"
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* The answers to those who ask for the environment that may be under way. */
#define ANSWERS_MAX 16

static void start_program(char **argv) {
  unblock_signals();
  /* The agent gets a process group of its own, so that what is sent to its group does not come here. */
  setpgid(0, 0);
  char path[PATH_MAX];
  int problem = find_program(argv[0], agent_environment, path, sizeof path);
  if (problem != 0) fail_to_run(argv[0], "", problem);
  execute(path, argv, agent_environment, "");
  fail_to_run(argv[0], path, errno);
}

static pid_t answers[ANSWERS_MAX];

/* Returns where the process stands among the answers, or a free place for 0; -1 if there is none. */
static int answer_at(pid_t pid) {
  for (int i = 0; i < ANSWERS_MAX; i++)
    if (answers[i] == pid) return i;
  return -1;
}

/* The process that holds commands and sessions; 0 while there is none, as nobody has asked for one. */
static pid_t keeper;

static void start_keeper(int listener) {
  pid_t started = fork();
  if (started == 0) run_keeper(listener);
  if (started > 0) keeper = started;
}

/* Reaps whatever has ended. Returns the exit code of the agent, -1 while it runs. */
static int reap(pid_t agent) {
  int status, code = -1;
  pid_t ended;
  while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
    if (ended == keeper) keeper = 0;
    if (ended == agent) code = exit_code_of(status);
    else if (answer_at(ended) >= 0) answers[answer_at(ended)] = 0;
  }
  return code;
}

int run_init(char **argv) {
  if (argv[0] == NULL) die("no program");
  hide();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  if (!environment_receive(STDIN_FILENO)) {
    dprintf(2, "supervisor: the variables did not come\n");
    return 125;
  }
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) die("/dev/null");
  /* A command without the agent's variables would do something else than what was meant. */
  int listener = environment_listen(), keeper_listener = keeper_listen();
  if (listener < 0) die("the socket for the variables");
  int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) die("signalfd");
  pid_t agent = fork();
  if (agent < 0) die("fork");
  if (agent == 0) start_program(argv);
  /* Nobody but the agent keeps its output open. */
  if (dup2(nothing, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0) die("/dev/null");
  for (;;) {
    int room = answer_at(0);
    struct pollfd wanted[] = {
      {signals, POLLIN, 0},
      {room >= 0 ? listener : -1, POLLIN, 0},
      {keeper == 0 ? keeper_listener : -1, POLLIN, 0},
    };
    if (poll(wanted, 3, -1) < 0 && errno != EINTR) die("poll");
    struct signalfd_siginfo signal;
    while (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal)
      if (signal.ssi_signo != SIGCHLD) kill(agent, (int)signal.ssi_signo);
    int code = reap(agent);
    if (code >= 0) return code;
    if (keeper == 0 && wanted[2].revents != 0) start_keeper(keeper_listener);
    if (wanted[1].revents != 0) {
      pid_t answer = environment_answer(listener);
      if (answer > 0) answers[room] = answer;
    }
  }
}
