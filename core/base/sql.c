/* SPDX-License-Identifier: MIT */
/*
** What a question to a results database may do: SQLite's authorizer, with a list of what is
** allowed, the look at a request to stop, and the wait for a lock.  SQLite calls them by their
** address; it is not linked here.
*/
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/base.h"

/* Of sqlite3.h: action codes and answers, fixed by its promise of compatibility. */
enum {
  ACTION_PRAGMA = 19,
  ACTION_READ = 20,
  ACTION_SELECT = 21,
  ACTION_UPDATE = 23,
  ACTION_FUNCTION = 31,
  ACTION_RECURSIVE = 33
};
enum { ANSWER_OK = 0, ANSWER_DENY = 1 };

/* Sorted.  Functions that compute a value of their arguments and of nothing else. */
/* clang-format off */
static const char *const functions[] = {
  "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "ceil",
  "ceiling", "changes", "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count",
  "cume_dist", "current_date", "current_time", "current_timestamp", "date", "datetime", "degrees",
  "dense_rank", "exp", "first_value", "floor", "format", "glob", "group_concat", "hex", "ifnull",
  "iif", "instr", "json", "json_array", "json_array_length", "json_each", "json_error_position",
  "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
  "json_patch", "json_quote", "json_remove", "json_replace", "json_set", "json_tree", "json_type",
  "json_valid", "julianday", "lag", "last_value", "lead", "length", "like", "likelihood",
  "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "min", "mod", "nth_value",
  "ntile", "nullif", "octet_length", "percent_rank", "pi", "pow", "power", "printf", "quote",
  "radians", "random", "randomblob", "rank", "replace", "round", "row_number", "rtrim", "sign",
  "sin", "sinh", "sqlite_source_id", "sqlite_version", "sqrt", "strftime", "string_agg", "substr",
  "substring", "subtype", "sum", "tan", "tanh", "time", "timediff", "total", "total_changes",
  "trim", "trunc", "typeof", "unhex", "unicode", "unixepoch", "unlikely", "upper", "zeroblob"
};
/* clang-format on */

/* Sorted.  Pragmas that only tell, whatever their argument is. */
/* clang-format off */
static const char *const telling[] = {
  "collation_list", "compile_options", "database_list", "foreign_key_check", "foreign_key_list",
  "function_list", "index_info", "index_list", "index_xinfo", "integrity_check", "pragma_list",
  "quick_check", "table_info", "table_list", "table_xinfo"
};
/* clang-format on */

/* Sorted.  Pragmas that tell where they have no argument, and set where they have one. */
/* clang-format off */
static const char *const asked[] = {
  "application_id", "data_version", "encoding", "freelist_count", "journal_mode", "page_count",
  "page_size", "schema_version", "user_version"
};
/* clang-format on */

static int compare(const void *name, const void *entry)
{
  return strcasecmp(name, *(const char *const *)entry);
}

#define IN(list, name) \
  ((name) != NULL &&   \
   bsearch(name, list, sizeof(list) / sizeof(*(list)), sizeof(*(list)), compare) != NULL)

int32_t rg_sql_authorize(void *unused, int32_t action, const char *first, const char *second,
                         const char *database, const char *inside)
{
  bool allowed;

  (void)unused;
  (void)database;
  (void)inside;
  switch (action) {
  case ACTION_READ:
  case ACTION_SELECT:
  case ACTION_RECURSIVE:
    allowed = true;
    break;
  case ACTION_UPDATE: /* how json_each and its like declare themselves; refused to others */
    allowed = first != NULL && strcmp(first, "sqlite_master") == 0;
    break;
  case ACTION_FUNCTION:
    allowed = IN(functions, second);
    break;
  case ACTION_PRAGMA:
    allowed = IN(telling, first) || (second == NULL && IN(asked, first));
    break;
  default:
    allowed = false;
  }
  return allowed ? ANSWER_OK : ANSWER_DENY;
}

int32_t rg_sql_stop(void *unused)
{
  (void)unused;
  return rg_interrupt_pending();
}

int32_t rg_sql_wait(void *unused, int32_t tries)
{
  static const int64_t most_ns = 30000000000, stopped_ns = 1000000000;
  static _Thread_local int64_t until_ns, left_ns = INT64_MIN;
  static _Thread_local int32_t stops;
  /* short at first: most locks are held for the time of one write */
  struct timespec pause = { .tv_nsec = tries < 10 ? 1000000 * (tries + 1) : 50000000 };
  const int64_t now = rg_clock_ns();

  (void)unused;
  if (tries == 0) {
    /* what is saved behind a wait that Ctrl-C ended waits for the same lock */
    const bool has_left = left_ns != INT64_MIN && now - left_ns < 5 * stopped_ns;

    until_ns = now + (has_left ? stopped_ns : most_ns);
    stops = rg_interrupt_count();
  }
  if (now >= until_ns) {
    return 0;
  }
  if (rg_interrupt_count() == stops) {
    nanosleep(&pause, NULL);
  }
  if (rg_interrupt_count() == stops) {
    return 1;
  }
  left_ns = rg_clock_ns();
  return 0;
}
