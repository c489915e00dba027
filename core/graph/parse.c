/* SPDX-License-Identifier: MIT */
/*
** JSON, as far as files of graphs need it: a text is gone through once, and nothing is kept of it.
** It may come from anywhere, so nothing is believed: not its end, not its depth, not its numbers.
*/
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/json.h"
#include "graph/store.h"

enum { FIRST_ROOM = 256 };

void rg_json_open(rg_json *j, const char *text, int64_t n)
{
  *j = (rg_json){ .at = text, .end = text + n, .line = 1 };
}

void rg_json_close(rg_json *j)
{
  rg_host_free(j->text);
}

bool rg_json_wrong(rg_json *j, const char *format, ...)
{
  char text[256];
  va_list list;

  if (j->status == RG_OK) {
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    j->status = j->begin == NULL
                    ? rg_fail(RG_EFORMAT, "graph: line %d: %s", j->line, text)
                    : rg_fail(RG_EFORMAT, "graph: line %d, column %d: %s", j->line,
                              (int)rg_min_i64(j->at - j->begin, INT32_MAX - 1) + 1, text);
  }
  return false;
}

char rg_json_peek(rg_json *j)
{
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r')) {
    j->line += *j->at == '\n';
    j->at++;
  }
  return j->status == RG_OK && j->at < j->end ? *j->at : '\0';
}

/* What stands there, for a message. */
static const char *found(rg_json *j, char text[8])
{
  char c = rg_json_peek(j);

  if (j->at >= j->end) {
    return "its end";
  }
  (void)snprintf(text, 8, (unsigned char)c < ' ' || (unsigned char)c > '~' ? "a byte" : "'%c'", c);
  return text;
}

bool rg_json_take(rg_json *j, char c)
{
  char text[8];

  if (rg_json_peek(j) != c || c == '\0') {
    return rg_json_wrong(j, "'%c' is expected, and there is %s", c, found(j, text));
  }
  j->at++;
  return true;
}

bool rg_json_more(rg_json *j, char close, bool *begun)
{
  if (rg_json_peek(j) == close) {
    j->at++;
    return false;
  }
  if (*begun && !rg_json_take(j, ',')) {
    return false;
  }
  *begun = true;
  return j->status == RG_OK;
}

/* \uXXXX as UTF-8: what is written here so is a control character, but others are read too. */
static int32_t read_code(rg_json *j)
{
  int32_t code = 0;

  for (int i = 0; i < 4; i++) {
    char c = j->at < j->end ? *j->at++ : '\0';
    int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

    if (digit < 0) {
      return -1;
    }
    code = 16 * code + digit;
  }
  return code;
}

static size_t put_code(char *to, int32_t code)
{
  if (code < 0x80) {
    to[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    to[0] = (char)(0xc0 | (code >> 6));
    to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  to[0] = (char)(0xe0 | (code >> 12));
  to[1] = (char)(0x80 | ((code >> 6) & 0x3f));
  to[2] = (char)(0x80 | (code & 0x3f));
  return 3;
}

/* What stands behind a backslash. */
static size_t read_escape(rg_json *j, char *to)
{
  static const char from[] = "\"\\/bfnrt";
  static const char is[] = "\"\\/\b\f\n\r\t";
  char c = j->at < j->end ? *j->at++ : '\0';
  const char *known = c != '\0' ? strchr(from, c) : NULL;

  if (known != NULL) {
    *to = is[known - from];
    return 1;
  }
  int32_t code = c == 'u' ? read_code(j) : -1;

  if (code <= 0 || (code >= 0xd800 && code < 0xe000)) {
    (void)rg_json_wrong(j, "a string with an escape that is none");
    return 0;
  }
  return put_code(to, code);
}

/* Room for another character of a string, as UTF-8, and for the 0 behind it. */
static bool has_room(rg_json *j, size_t n)
{
  if (n + 4 <= j->room) {
    return true;
  }
  size_t room = j->room + n + FIRST_ROOM; /* twice as much and more */
  char *text = rg_host_alloc(room);

  if (text == NULL) {
    j->status = rg_ir_no_memory();
    return false;
  }
  if (j->text != NULL) {
    memcpy(text, j->text, n);
  }
  rg_host_free(j->text);
  j->text = text;
  j->room = room;
  return true;
}

bool rg_json_string(rg_json *j)
{
  size_t n = 0;

  if (!rg_json_take(j, '"') || !has_room(j, 0)) {
    return false;
  }
  while (j->at < j->end && *j->at != '"') {
    if (!has_room(j, n)) {
      return false;
    }
    char c = *j->at++;

    if ((unsigned char)c < ' ') {
      return rg_json_wrong(j, "a string that does not end in its line");
    }
    if (c == '\\') {
      n += read_escape(j, j->text + n);
    } else {
      j->text[n++] = c;
    }
    if (j->status != RG_OK) {
      return false;
    }
  }
  j->text[n] = '\0';
  return j->at < j->end ? rg_json_take(j, '"') : rg_json_wrong(j, "a string without an end");
}

bool rg_json_keep(rg_json *j, const char *from, size_t n)
{
  if (!has_room(j, n)) {
    return false;
  }
  memcpy(j->text, from, n);
  j->text[n] = '\0';
  return strlen(j->text) == n || rg_json_wrong(j, "a byte that is 0");
}

bool rg_json_name(rg_json *j, char *name, size_t n)
{
  char what[8];
  size_t length = 0;

  (void)rg_json_peek(j);
  while (j->status == RG_OK && j->at < j->end &&
         (isalnum((unsigned char)*j->at) || *j->at == '_')) {
    if (length + 1 == n) {
      return rg_json_wrong(j, "a word of more than %d letters", (int)n - 1);
    }
    name[length++] = *j->at++;
  }
  name[length] = '\0';
  return length > 0 || rg_json_wrong(j, "a word is expected, and there is %s", found(j, what));
}

bool rg_json_key(rg_json *j)
{
  return rg_json_string(j) && rg_json_take(j, ':');
}

/* The characters of a number into text. */
static bool read_digits(rg_json *j, char text[40])
{
  char what[8];
  int n = 0;

  (void)rg_json_peek(j);
  while (j->status == RG_OK && j->at < j->end && n < 39 &&
         strchr("+-.0123456789eE", *j->at) != NULL && *j->at != '\0') {
    text[n++] = *j->at++;
  }
  text[n] = '\0';
  return n > 0 ? true : rg_json_wrong(j, "a number is expected, and there is %s", found(j, what));
}

bool rg_json_number(rg_json *j, double *out)
{
  char text[40];
  char *end;

  if (!read_digits(j, text)) {
    return false;
  }
  *out = strtod(text, &end);
  return *end == '\0' ? true : rg_json_wrong(j, "%s is no number", text);
}

bool rg_json_whole(rg_json *j, int64_t least, int64_t most, int64_t *out)
{
  char text[40];
  char *end;

  if (!read_digits(j, text)) {
    return false;
  }
  errno = 0;
  *out = strtoll(text, &end, 10);
  if (*end != '\0' || errno != 0) {
    return rg_json_wrong(j, "%s is no whole number", text);
  }
  if (*out < least || *out > most) {
    return rg_json_wrong(j, "%s is not in %lld .. %lld", text, (long long)least, (long long)most);
  }
  return true;
}

bool rg_json_null(rg_json *j)
{
  if (rg_json_peek(j) != 'n' || j->end - j->at < 4 || memcmp(j->at, "null", 4) != 0) {
    return false;
  }
  j->at += 4;
  return true;
}

bool rg_json_end(rg_json *j)
{
  char text[8];

  (void)rg_json_peek(j);
  return j->status == RG_OK && j->at == j->end
             ? true
             : rg_json_wrong(j, "the graph is over, and there is %s", found(j, text));
}

bool rg_json_is(const rg_json *j, const char *text)
{
  return strcmp(j->text, text) == 0;
}
