-- SPDX-License-Identifier: MIT
--- The commands over stored results as calls: ridge.query, ridge.sql, ridge.sweeps, ridge.merge.
--
-- Rows come back as plain tables by column, for the prompt and for recipes.

local blame = require 'ridge.blame'
local late = require 'ridge.late'
local options = require 'ridge.options'
local query = require 'ridge.store.query'
local shown = require 'ridge.store.shown'
local store = require 'ridge.store'

local M = {}

local DB = { 'string', doc = 'database file; else RIDGE_DB, else results/ridge.db' }

local function text_of(value, name, what)
  if type(value) == 'string' then return end
  blame.raise(('%s: %s is expected, got %s'):format(name, what, blame.show(value)), 'EARG', name)
end

local function rows_of(found)
  local rows = {}
  for r, line in ipairs(found.lines) do
    local row = {}
    for i, title in ipairs(found.titles) do row[title] = line[i] end
    rows[r] = row
  end
  return shown.rows(rows, found)
end

local QUERY = {
  columns = { 'string', doc = "expressions by comma: 'width, median(fwd)'" },
  where = { 'string', doc = "condition: 'batch >= 64 and kind = \"linear\"'" },
  group = { 'string', doc = 'columns that make a group, by comma' },
  sort = { 'string', doc = "a column by number or name, '-2' the largest first" },
  limit = { 'integer', min = 1, doc = 'rows at most' },
  mixed = { 'boolean', default = false, doc = 'one number of points of unlike machines, too' },
  db = DB,
}

--- Rows of a stored sweep, filtered, grouped, sorted; `ridge query` as a call.
---@param sweep string its name
---@param opt table|string|nil {columns =, where =, group =, sort =, limit =, mixed =, db =}, or
---  the columns alone, as in the shell: ridge.query('widths', 'width, median(fwd)',
---  { group = 'width' })
---@param more table|nil the other options, where columns stand before them
---@return table[] rows each keyed by column
-- Raises EARG for a sweep or a column that is not there, with the near miss.
function M.query(sweep, opt, more)
  text_of(sweep, 'query', 'the name of a sweep')
  local columns = type(opt) == 'string' and opt or nil
  opt = options.check(QUERY, not columns and opt or more, 'query')
  if columns and opt.columns then
    blame.raise('query: columns are given twice', 'EARG', 'query')
  end
  if columns then opt.columns = columns end
  opt.refuse = require(late.above.unlike).question
  return store.with(opt.db, 'read', function(st) return rows_of(query.ask(st, sweep, opt)) end)
end

--- Rows of any SELECT; sweeps are views of their names. Read-only. Numbers are Lua's; a whole one
--- beyond 2^53, which these cannot be, is an int64_t of LuaJIT (9007199254740993LL).
---@param text string
---@param opt table|nil {db =}
---@return table[] rows
function M.sql(text, opt)
  text_of(text, 'sql', 'a SELECT')
  opt = options.check({ db = DB }, opt, 'sql')
  return store.with(opt.db, 'read', function(st) return rows_of(query.sql(st, text)) end)
end

local SWEEPS = { db = DB,
  since = { 'string', doc = 'those that ended not before: today, yesterday, 7d, 2026-11-20' },
  like = { 'string', doc = 'those whose name has this in it, or is like it with * and ?' } }

--- What sweeps a database has: sweep, done, points, running, failed, grades, last; differs (from
--- the one of its name before it) and note where there are any.
---@param opt table|nil {db =, since =, like =}
---@return table[] rows the newest first
function M.sweeps(opt)
  opt = options.check(SWEEPS, opt, 'sweeps')
  return store.with(opt.db, 'read', function(st)
    return rows_of(require('ridge.store.sweeps').list(st, opt))
  end)
end

--- Take all rows of other databases into one; the same points of the same sweep unite.
---@param into string file, made when it is not there
---@param ... string the others
---@return table counts for each of them, table name to number of new rows; notes (sentences), where
---  a sweep has another name here or was measured by another version of the protocol
function M.merge(into, ...)
  local merge, others, out = require 'ridge.store.merge', { ... }, {}
  for i = 0, select('#', ...) do
    local path = i == 0 and into or others[i]
    if type(path) ~= 'string' or path == '' then
      blame.raise(('merge: argument %d is %s; expected the file of a database'):format(i + 1,
        blame.show(path)), 'EARG', 'merge')
    end
  end
  if #others == 0 then
    blame.raise('merge: two databases at least: what takes, and what is taken', 'EARG', 'merge')
  end
  for _, path in ipairs(others) do store.open(path, 'read'):close() end
  store.with(into, 'write', function(st)
    for i, path in ipairs(others) do
      out[i] = {}
      local taken = merge.take(st, path)
      for _, c in ipairs(taken) do out[i][c.name] = c.n end
      out[i].notes = #taken.notes > 0 and taken.notes or nil
    end
  end)
  return out
end

return M
