#include "supervisor.h"

void put_u32(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

uint32_t get_u32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void put_u64(uint8_t *at, uint64_t value) {
  put_u32(at, (uint32_t)value);
  put_u32(at + 4, (uint32_t)(value >> 32));
}

uint64_t get_u64(const uint8_t *at) {
  return (uint64_t)get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

bool fields_parse(struct fields *fields, uint8_t *bytes, size_t length) {
  fields->count = 0;
  size_t at = 0;
  while (at < length) {
    if (length - at < 4 || fields->count == FIELDS_MAX) return false;
    uint32_t size = get_u32(bytes + at);
    /* The place of a length is used up once it is read, so that the NUL of the field before can stand there. */
    bytes[at] = 0;
    at += 4;
    if (size > length - at) return false;
    fields->at[fields->count] = (const char *)bytes + at;
    fields->length[fields->count++] = size;
    at += size;
  }
  /* The caller's buffer has one more byte. */
  bytes[length] = 0;
  return true;
}

const char *field_text(const struct fields *fields, int index) {
  return index >= 0 && index < fields->count ? fields->at[index] : "";
}

int64_t field_number(const struct fields *fields, int index, int64_t otherwise) {
  const char *text = field_text(fields, index);
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  return *text == 0 || *end != 0 || errno != 0 ? otherwise : value;
}

void put_field(struct writer *writer, const void *bytes, size_t length) {
  if (writer->full || writer->capacity - writer->length < length + 4) {
    writer->full = true;
    return;
  }
  put_u32(writer->bytes + writer->length, (uint32_t)length);
  if (length > 0) memcpy(writer->bytes + writer->length + 4, bytes, length);
  writer->length += length + 4;
}

void put_text(struct writer *writer, const char *text) {
  put_field(writer, text, strlen(text));
}

void put_number(struct writer *writer, int64_t number) {
  char text[24];
  put_field(writer, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number));
}
