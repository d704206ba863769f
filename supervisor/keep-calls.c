#include "keeper.h"
#include <poll.h>
#include <sys/uio.h>

/*
 * A call comes over a connection of its own: its length (4 bytes) with the four descriptors that a worker of the attached process would have,
 * and its fields. It is answered on those descriptors, as a worker would do, so that the attached process need not know the difference.
 */

#define REQUEST_MS_MAX 5000

struct call *calls;
static int call_count;

int calls_count(void) {
  return call_count;
}

bool is_name(const char *text) {
  size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
  return length > 0 && length <= NAME_BYTES_MAX && text[length] == 0;
}

void call_end(struct call *call, struct writer *result) {
  close_fd(&call->in);
  close_fd(&call->out);
  close_fd(&call->err);
  if (result != NULL && call->control >= 0) {
    result->bytes[0] = PACKET_RESULT;
    send(call->control, result->bytes, result->length, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  close_fd(&call->control);
  close_fd(&call->connection);
  call->over = true;
}

void call_end_with(struct call *call, const char *word, const char *detail) {
  uint8_t bytes[256];
  struct writer result = {bytes, sizeof bytes, 1, false};
  put_text(&result, word);
  put_text(&result, detail);
  put_text(&result, "");
  call_end(call, &result);
}

void call_end_exit(struct call *call, int code, bool late) {
  uint8_t bytes[128];
  struct writer result = {bytes, sizeof bytes, 1, false};
  put_text(&result, "exit");
  put_number(&result, code);
  put_number(&result, late ? 1 : 0);
  call_end(call, &result);
}

/* --- coming in --- */

void call_accept(int listener) {
  int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) return;
  struct call *call = is_own_user(connection) ? calloc(1, sizeof *call) : NULL;
  if (call == NULL) {
    close(connection);
    return;
  }
  call->connection = connection;
  call->since = now_ms();
  call->in = call->out = call->err = call->control = -1;
  struct call **last = &calls;
  while (*last != NULL) last = &(*last)->next;
  *last = call;
  call_count++;
}

/* Receives the length and the descriptors. Returns false if they are not what they should be. */
static bool receive_head(struct call *call) {
  uint8_t head[4];
  struct iovec part = {head, sizeof head};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(4 * sizeof(int))];
  } space;
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
  ssize_t got = recvmsg(call->connection, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  int *places[] = {&call->in, &call->out, &call->err, &call->control}, count = 0;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < count && i < 4; i++) memcpy(places[i], CMSG_DATA(header) + (size_t)i * sizeof(int), sizeof(int));
  }
  call->wanted = get_u32(head);
  if (got != (ssize_t)sizeof head || count != 4 || (message.msg_flags & MSG_CTRUNC) != 0 || call->wanted > OPEN_BYTES_MAX) return false;
  for (int i = 0; i < 3; i++) set_nonblocking(*places[i]);
  call->request = malloc((size_t)call->wanted + 1);
  return call->request != NULL;
}

static void dispatch(struct call *call) {
  static struct fields fields;
  close_fd(&call->connection);
  if (!fields_parse(&fields, call->request, call->wanted)) call_end_with(call, "refused", "invalid");
  else if (strcmp(field_text(&fields, 0), "session") == 0) session_call(call, &fields);
  else command_call(call, &fields);
}

static void receive(void *of) {
  struct call *call = of;
  if (call->over) return;
  bool complete = true;
  if (call->request == NULL) {
    complete = receive_head(call);
  } else if (call->received < call->wanted) {
    ssize_t got = recv(call->connection, call->request + call->received, call->wanted - call->received, MSG_DONTWAIT);
    if (got > 0) call->received += (uint32_t)got;
    complete = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }
  if (!complete) call_end(call, NULL);
  else if (call->request != NULL && call->received == call->wanted) dispatch(call);
}

/* --- while it is under way --- */

void call_obey(void *of) {
  struct call *call = of;
  while (!call->over && call->control >= 0) {
    char packet[16];
    ssize_t got = recv(call->control, packet, sizeof packet, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0 && packet[0] == PACKET_INPUT_ENDED) call->whole = true;
    /* The caller has gone. */
    if (got <= 0) call_end(call, NULL);
  }
}

void calls_watch(void) {
  for (struct call *call = calls; call != NULL; call = call->next) {
    if (call->kind == INCOMING) {
      watch(call->connection, POLLIN, receive, call);
      wake_at(call->since + REQUEST_MS_MAX);
    } else {
      watch(call->control, POLLIN, call_obey, call);
    }
  }
}

void calls_advance(uint64_t now) {
  for (struct call *call = calls; call != NULL; call = call->next) {
    if (call->over) continue;
    if (call->kind == INCOMING && now - call->since >= REQUEST_MS_MAX) call_end(call, NULL);
    else if (call->kind == WRITE_TO) call_obey(call);
    if (!call->over && call->kind != INCOMING && call->kind != IN_SESSION) command_advance_call(call);
  }
}

void calls_sweep(void) {
  struct call **at = &calls;
  while (*at != NULL) {
    struct call *call = *at;
    if (call->over && call->session == NULL) {
      *at = call->next;
      free(call->request);
      free(call);
      call_count--;
    } else {
      at = &call->next;
    }
  }
}
