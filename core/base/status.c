/* SPDX-License-Identifier: MIT */
/*
** Status codes and the sentence of the last failure, which is written where the facts are and kept
** per thread.
*/
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static _Thread_local char message[512];

static const struct {
  const char *name;
  const char *text;
} names[] = {
#define STATUS_ROW(code, number, sentence) [-(number)] = { #code, sentence },
  RG_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

_Static_assert(sizeof(names) / sizeof(names[0]) == RG_STATUS_COUNT, "RG_STATUS_COUNT is stale");

const char *rg_status_name(rg_status code)
{
  return code <= 0 && code > -RG_STATUS_COUNT ? names[-code].name : "RG_?";
}

const char *rg_status_text(rg_status code)
{
  return code <= 0 && code > -RG_STATUS_COUNT ? names[-code].text : "not a status";
}

const char *rg_error_message(void)
{
  return message;
}

/* nan has no sign that anybody gave it: " -nan" becomes " nan". */
static void drop_sign_of_nan(void)
{
  for (char *at = strstr(message, " -nan"); at != NULL; at = strstr(at + 1, " -nan")) {
    if (at[5] == '\0' || strchr(" ,;)]", at[5]) != NULL) {
      memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
  }
}

rg_status(rg_fail)(rg_status code, const char *format, ...)
{
  va_list list;

  va_start(list, format);
  vsnprintf(message, sizeof(message), format, list);
  va_end(list);
  drop_sign_of_nan();
  return code;
}
