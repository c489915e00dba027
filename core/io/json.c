/* SPDX-License-Identifier: MIT */
/*
** JSON (RFC 8259) read in place.  Nothing here calls itself, so no depth of brackets reaches the
** end of the stack; what is wrong is said with its byte.  Files of graphs have a reader of their
** own (graph/parse.c), whose texts end with a 0; a header's names are anybody's, so they have
** lengths and are checked.
*/
#include <string.h>

#include "io/json.h"

enum { DEEPEST = 100 };

static rg_status wrong(rg_scan *j, const char *what)
{
  j->broken = true;
  return rg_fail(RG_EFORMAT, "byte %lld: %s", (long long)j->at + 1, what);
}

char rg_scan_next(rg_scan *j)
{
  while (j->at < j->end && (j->text[j->at] == ' ' || j->text[j->at] == '\n' ||
                            j->text[j->at] == '\r' || j->text[j->at] == '\t')) {
    j->at++;
  }
  return j->at < j->end ? j->text[j->at] : '\0';
}

rg_status rg_scan_enter(rg_scan *j, char bracket)
{
  if (rg_scan_next(j) != bracket) {
    return wrong(j, bracket == '{' ? "no object" : "no list");
  }
  j->at++;
  return RG_OK;
}

rg_status rg_scan_more(rg_scan *j, char close, int64_t *n, bool *more)
{
  char next = rg_scan_next(j);

  if (next == close) {
    j->at++;
    *more = false;
    return RG_OK;
  }
  if (*n > 0) {
    if (next != ',') {
      return wrong(j, close == '}' ? "neither , nor }" : "neither , nor ]");
    }
    j->at++;
  }
  (*n)++;
  *more = true;
  return RG_OK;
}

/* -- Texts ---------------------------------------------------------------------------------- */

bool rg_text_is(rg_header_text text, const char *word)
{
  return text.bytes == (int64_t)strlen(word) && memcmp(text.data, word, (size_t)text.bytes) == 0;
}

/* Bytes of the letter that begins at s, of which n are left; 0: it is none (RFC 3629: no overlong
** forms, no surrogates, nothing above U+10FFFF). */
static int letter(const uint8_t *s, int64_t n)
{
  int more = s[0] < 0x80                    ? 0
             : s[0] >= 0xC2 && s[0] <= 0xDF ? 1
             : s[0] >= 0xE0 && s[0] <= 0xEF ? 2
             : s[0] >= 0xF0 && s[0] <= 0xF4 ? 3
                                            : -1;

  if (more < 0 || more >= n) {
    return 0;
  }
  for (int i = 1; i <= more; i++) {
    if (s[i] < 0x80 || s[i] > 0xBF) {
      return 0;
    }
  }
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
      (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) {
    return 0;
  }
  return more + 1;
}

bool rg_is_utf8(const char *text, int64_t n)
{
  for (int64_t i = 0; i < n;) {
    int bytes = letter((const uint8_t *)text + i, n - i);

    if (bytes == 0) {
      return false;
    }
    i += bytes;
  }
  return true;
}

/* The four digits of \u; -1: they are not there. */
static int32_t hex4(const rg_scan *j, int64_t at)
{
  int32_t value = 0;

  if (at > j->end - 4) {
    return -1;
  }
  for (int i = 0; i < 4; i++) {
    char c = j->text[at + i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;

    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

/* A code point as UTF-8; how many bytes it took. */
static int put_letter(char *to, int32_t code)
{
  uint8_t *out = (uint8_t *)to;

  if (code < 0x80) {
    out[0] = (uint8_t)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (uint8_t)(0xC0 | (code >> 6));
    out[1] = (uint8_t)(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (uint8_t)(0xE0 | (code >> 12));
    out[1] = (uint8_t)(0x80 | ((code >> 6) & 0x3F));
    out[2] = (uint8_t)(0x80 | (code & 0x3F));
    return 3;
  }
  out[0] = (uint8_t)(0xF0 | (code >> 18));
  out[1] = (uint8_t)(0x80 | ((code >> 12) & 0x3F));
  out[2] = (uint8_t)(0x80 | ((code >> 6) & 0x3F));
  out[3] = (uint8_t)(0x80 | (code & 0x3F));
  return 4;
}

/* \uXXXX at j->at, which is at its u: moves behind it, or behind the second half of a pair. */
static rg_status unicode(rg_scan *j, int32_t *out)
{
  int32_t code = hex4(j, j->at + 1);

  if (code < 0) {
    return wrong(j, "\\u without four digits");
  }
  j->at += 5;
  if (code >= 0xD800 && code <= 0xDBFF) {
    int32_t low = j->at < j->end - 1 && j->text[j->at] == '\\' && j->text[j->at + 1] == 'u'
                      ? hex4(j, j->at + 2)
                      : -1;

    if (low < 0xDC00 || low > 0xDFFF) {
      return wrong(j, "half of a pair of \\u");
    }
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    j->at += 6;
  } else if (code >= 0xDC00 && code <= 0xDFFF) {
    return wrong(j, "half of a pair of \\u");
  }
  *out = code;
  return RG_OK;
}

/* What stands behind a backslash, at j->at: its letter goes to the place to, and moves that. */
static rg_status escape(rg_scan *j, int64_t *to)
{
  static const char signs[] = "\"\\/bfnrt";
  static const char meant[] = "\"\\/\b\f\n\r\t";
  const char *sign;
  int32_t code;

  if (j->at >= j->end) {
    return wrong(j, "a text without an end");
  }
  if (j->text[j->at] == 'u') {
    RG_TRY(unicode(j, &code));
    *to += put_letter(j->text + *to, code);
    return RG_OK;
  }
  sign = memchr(signs, j->text[j->at], sizeof(signs) - 1);
  if (sign == NULL) {
    return wrong(j, "a backslash before a sign that needs none");
  }
  j->text[(*to)++] = meant[sign - signs];
  j->at++;
  return RG_OK;
}

rg_status rg_scan_text(rg_scan *j, rg_header_text *out)
{
  int64_t from;
  int64_t to;

  if (rg_scan_next(j) != '"') {
    return wrong(j, "no text");
  }
  from = ++j->at;
  to = from;
  while (j->at < j->end) {
    uint8_t c = (uint8_t)j->text[j->at];
    int bytes;

    if (c == '"') {
      j->at++;
      *out = (rg_header_text){ .data = j->text + from, .bytes = to - from };
      return RG_OK;
    }
    if (c == '\\') {
      j->at++;
      RG_TRY(escape(j, &to));
      continue;
    }
    bytes = c < 0x20 ? 0 : letter((const uint8_t *)j->text + j->at, j->end - j->at);
    if (bytes == 0) {
      return wrong(j, c < 0x20 ? "a control character in a text" : "a text that is not UTF-8");
    }
    memmove(j->text + to, j->text + j->at, (size_t)bytes);
    to += bytes;
    j->at += bytes;
  }
  return wrong(j, "a text without an end");
}

rg_status rg_scan_key(rg_scan *j, rg_header_text *out)
{
  RG_TRY(rg_scan_text(j, out));
  if (rg_scan_next(j) != ':') {
    return wrong(j, "no : behind a name");
  }
  j->at++;
  return RG_OK;
}

/* -- Numbers and the rest -------------------------------------------------------------------- */

static int64_t digits(rg_scan *j)
{
  int64_t from = j->at;

  while (j->at < j->end && j->text[j->at] >= '0' && j->text[j->at] <= '9') {
    j->at++;
  }
  return j->at - from;
}

static bool take(rg_scan *j, char a, char b)
{
  if (j->at < j->end && (j->text[j->at] == a || j->text[j->at] == b)) {
    j->at++;
    return true;
  }
  return false;
}

rg_status rg_scan_whole(rg_scan *j, int64_t *out)
{
  bool whole = rg_scan_next(j) != '-';
  int64_t from = whole ? j->at : ++j->at;
  int64_t n = digits(j);
  int64_t value = 0;

  if (n == 0 || (n > 1 && j->text[from] == '0')) {
    return wrong(j, "no number");
  }
  for (int64_t i = from; whole && i < j->at; i++) {
    whole = !__builtin_mul_overflow(value, 10, &value) &&
            !__builtin_add_overflow(value, j->text[i] - '0', &value);
  }
  if (take(j, '.', '.')) {
    whole = false;
    if (digits(j) == 0) {
      return wrong(j, "no number");
    }
  }
  if (take(j, 'e', 'E')) {
    whole = false;
    (void)take(j, '+', '-');
    if (digits(j) == 0) {
      return wrong(j, "no number");
    }
  }
  *out = whole ? value : -1;
  return RG_OK;
}

/* A value that is no list and no object. */
static rg_status skip_plain(rg_scan *j)
{
  static const char *const words[] = { "true", "false", "null" };
  rg_header_text text;
  int64_t number;

  if (rg_scan_next(j) == '"') {
    return rg_scan_text(j, &text);
  }
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    int64_t n = (int64_t)strlen(words[i]);

    if (n <= j->end - j->at && memcmp(j->text + j->at, words[i], (size_t)n) == 0) {
      j->at += n;
      return RG_OK;
    }
  }
  return rg_scan_whole(j, &number);
}

rg_status rg_scan_skip(rg_scan *j)
{
  struct {
    char close;
    int64_t n;
  } open[DEEPEST];
  int depth = 0;

  do {
    bool more = true;
    char next;

    if (depth > 0) {
      rg_header_text key;

      RG_TRY(rg_scan_more(j, open[depth - 1].close, &open[depth - 1].n, &more));
      if (more && open[depth - 1].close == '}') {
        RG_TRY(rg_scan_key(j, &key));
      }
    }
    next = more ? rg_scan_next(j) : '\0';
    if (!more) {
      depth--;
    } else if (next == '{' || next == '[') {
      if (depth == DEEPEST) {
        return wrong(j, "more than 100 lists and objects in each other");
      }
      open[depth].close = next == '{' ? '}' : ']';
      open[depth++].n = 0;
      j->at++;
    } else {
      RG_TRY(skip_plain(j));
    }
  } while (depth > 0);
  return RG_OK;
}

rg_status rg_scan_end(rg_scan *j)
{
  return rg_scan_next(j) == '\0' && j->at == j->end ? RG_OK
                                                    : wrong(j, "more behind the end of the JSON");
}
