-- SPDX-License-Identifier: MIT
--- The recipe that a name on the command line means: a file, a known recipe, or that of a stored
--- sweep, whose text the database holds.

local canonical = require 'ridge.store.canonical'

local M = {}

--- The recipe of a stored sweep: its text as it ran.
---@param name string   of the sweep
---@param argv string[] arguments of the recipe
---@param path string   database file
---@return table|nil origin  name, argv, source, sweep, args, space; nil where there is none
function M.of_sweep(name, argv, path)
  local store = require 'ridge.store'
  local st = store.open(path, 'read')
  local row = st.db:row([[/* recipe of a sweep */ SELECT s.base, s.args, s.space, r.source, r.name
    FROM main.sweep s JOIN main.recipe r ON r.id = s.recipe_id WHERE s.name = ?1 OR s.base = ?1
    ORDER BY (s.name = ?1) DESC, s.generation DESC LIMIT 1]], name)
  st:close()
  return row and { name = row.name, source = row.source, argv = argv, sweep = row.base,
    args = row.args, space = row.space } or nil
end

--- What other processes run: the text of a recipe, where it is from, its arguments.
---@param name string   a recipe, or else a sweep in the database
---@param argv string[] arguments of the recipe
---@param db string|nil database file; nil for the usual one
---@return table|nil origin  name, argv; of a sweep what M.of_sweep gives
---@return string|nil reason
function M.of(name, argv, db)
  local found, reason = require('ridge.cli.recipe').find(name)
  if found then return { name = name, argv = argv } end
  local path = db or require('ridge.store').default_path()
  local file = io.open(path, 'rb')
  if not file then return nil, reason end
  file:close()
  local origin = M.of_sweep(name, argv, path)
  if origin then return origin end
  return nil, ('%s, and no sweep of that name in %s; see: ridge list, ridge sweeps'):format(
    reason:gsub('; see: ridge list$', ''), path)
end

--- Is a recipe's sweep the stored one? A stored sweep is the recipe with the arguments it had.
---@param sw table      that the recipe declares now
---@param origin table  of M.of
---@param any_space boolean|nil its values may be others
---@return boolean|nil same
---@return string|nil reason
function M.agrees(sw, origin, any_space)
  if not origin.source then return true end
  local args_now = canonical.encode(sw:arguments())
  if args_now ~= origin.args then
    return nil, ('the stored sweep was made with other arguments (%s, now %s); give them after --')
      :format(origin.args, args_now)
  elseif sw.plan.text ~= origin.space and not any_space then
    return nil, 'the stored sweep has other values than its recipe, as from -P or --where of '
      .. 'ridge sweep: name the file of the recipe in its place'
  end
  return true
end

--- An origin as the processes get it that make its candidates.
---@param origin table  of M.of
---@return table sent   name, source, argv
function M.sent(origin)
  return { name = origin.name, source = origin.source, argv = canonical.list(origin.argv) }
end

return M
