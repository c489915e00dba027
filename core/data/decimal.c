/* SPDX-License-Identifier: MIT */
/*
** Decimal numbers of a line of text, as most files of numbers have them: digits, a point, an
** exponent.  Whatever else a line holds (quotes, words, empty fields, more digits than are exact
** here) is left to who asked, so that there is one place that says what is wrong.
**
** Up to 15 digits and powers of ten up to 22 are exact as doubles, so that one multiplication or
** division rounds once: Clinger, "How to read floating point numbers accurately", PLDI 1990.
*/
#include <math.h>

#include "data/data.h"

#define DIGITS 15
#define POWER  22

static const double power_of_ten[POWER + 1] = {
  1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static inline bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

/*
** Digits from p on, onto *value; how many of them count, leading zeros do not, is added to *digits.
** Behind the last.
*/
static const char *take_digits(const char *p, const char *end, uint64_t *value, int32_t *digits)
{
  for (; p < end && is_digit(*p) && *digits <= DIGITS; p++) {
    *value = *value * 10 + (uint64_t)(*p - '0');
    *digits += *value != 0;
  }
  return p;
}

/* An exponent from p (behind its e) on; NULL: there is none, or it is a long one. */
static const char *take_exponent(const char *p, const char *end, int32_t *exponent)
{
  bool negative = p < end && *p == '-';
  int32_t value = 0;
  const char *first;

  p += p < end && (*p == '-' || *p == '+');
  first = p;
  for (; p < end && is_digit(*p) && value < 1000; p++) {
    value = value * 10 + (*p - '0');
  }
  *exponent += negative ? -value : value;
  return p > first ? p : NULL;
}

/* The number that begins at p; behind it, or NULL where it is none of these. */
static const char *take_number(const char *p, const char *end, double *out, bool *whole)
{
  bool negative = p < end && *p == '-';
  uint64_t value = 0;
  int32_t digits = 0;
  int32_t exponent = 0;
  const char *first;
  const char *point;

  p += p < end && (*p == '-' || *p == '+');
  first = p;
  p = take_digits(p, end, &value, &digits);
  *whole = true;
  if (p < end && *p == '.') {
    point = ++p;
    p = take_digits(p, end, &value, &digits);
    exponent = (int32_t)(point - p);
    *whole = false;
    first += point - first == 1; /* a point alone is no number */
  }
  if (p == first || digits > DIGITS) {
    return NULL;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    p = take_exponent(p + 1, end, &exponent);
    *whole = false;
    if (p == NULL) {
      return NULL;
    }
  }
  if (exponent < -POWER || exponent > POWER) {
    return NULL;
  }
  *out = exponent < 0 ? (double)value / power_of_ten[-exponent]
                      : (double)value * power_of_ten[exponent];
  *out = negative ? -*out : *out;
  return p;
}

static inline const char *skip_blanks(const char *p, const char *end, char separator)
{
  while (p < end && (*p == ' ' || *p == '\t') && *p != separator) {
    p++;
  }
  return p;
}

int32_t rg_decimals(const char *line, int64_t bytes, const rg_decimal *how, double *out,
                    int32_t most)
{
  const char *p = line;
  const char *end = line + bytes;
  double most_here;
  bool whole;

  for (int32_t n = 0; n < most;) {
    p = take_number(skip_blanks(p, end, how->separator), end, &out[n], &whole);
    if (p == NULL) {
      break;
    }
    most_here = whole ? how->largest_whole : how->largest;
    if (fabs(out[n]) > most_here || out[n] < how->least || out[n] > how->greatest ||
        (how->whole && out[n] != floor(out[n]))) {
      break;
    }
    n++;
    p = skip_blanks(p, end, how->separator);
    if (p == end) {
      return n;
    }
    if (*p++ != how->separator) {
      break;
    }
  }
  return -1;
}
