-- SPDX-License-Identifier: MIT
--- Recipes: where they are looked for, and how a file is run.
--
-- A name is searched as a path; in ./recipes; in each folder of RIDGE_PATH; in the XDG data folder;
-- among the embedded ones. A recipe runs with strict globals and finds modules beside itself first.

local colour = require 'ridge.show.colour'
local environment = require 'ridge.repl.environment'
local host = require 'ridge.host'
local near = require 'ridge.near'
local report = require 'ridge.repl.report'

local M = {}

local function readable(path)
  local file = io.open(path, 'rb')
  if not file then return false end
  local is_file = file:read(0) ~= nil or file:seek 'end' == 0 -- a folder opens but cannot be read
  file:close()
  return is_file
end

--- The folders recipes are looked for in, with what to call them.
---@return {path: string, origin: string}[] folders
function M.folders()
  local list = { { path = 'recipes', origin = './recipes' } }
  for folder in (os.getenv 'RIDGE_PATH' or ''):gmatch '[^:]+' do
    list[#list + 1] = { path = folder, origin = folder }
  end
  local data, home = os.getenv 'XDG_DATA_HOME', os.getenv 'HOME'
  if not data or data == '' then data = home and home ~= '' and home .. '/.local/share' or nil end
  if data then
    list[#list + 1] = { path = data .. '/ridge/recipes', origin = data .. '/ridge/recipes' }
  end
  return list
end

---@class ridge.cli.Recipe
---@field name string 'landscape'
---@field path string|nil its file; nil for an embedded one
---@field source string|nil the text of an embedded one
---@field origin string where it is from

--- Every recipe by name, the first found of each; sorted.
---@return ridge.cli.Recipe[] recipes
function M.all()
  local list, seen = {}, {}
  local function add(recipe)
    if seen[recipe.name] then return end
    seen[recipe.name] = true
    list[#list + 1] = recipe
  end
  for _, folder in ipairs(M.folders()) do
    for _, file in ipairs(host.directory(folder.path) or {}) do
      local name = file:match '^([^.].*)%.lua$'
      if name then
        add { name = name, path = folder.path .. '/' .. file, origin = folder.origin }
      end
    end
  end
  for _, path in ipairs(host.files()) do
    local name = path:match '^recipes/([^/]+)%.lua$'
    if name then add { name = name, source = host.source(path), origin = 'built in' } end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- The recipe of a name or path; nil and a sentence if there is none.
---@param name string what was asked for
---@return ridge.cli.Recipe|nil recipe
---@return string|nil reason
function M.find(name)
  if readable(name) then return { name = name, path = name, origin = 'file' } end
  local names = {}
  for _, recipe in ipairs(M.all()) do
    if recipe.name == name or recipe.name .. '.lua' == name then return recipe end
    names[#names + 1] = recipe.name
  end
  if name:find '/' or name:find '%.lua$' then return nil, ("there is no file '%s'"):format(name) end
  return nil, ("there is no recipe '%s'%s; see: ridge list"):format(name, near.hint(name, names))
end

--- The text of a recipe.
---@param recipe ridge.cli.Recipe what `find` gave
---@return string source
function M.text(recipe)
  if recipe.source then return recipe.source end
  local file = assert(io.open(recipe.path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

--- The first line of its docstring.
---@param recipe ridge.cli.Recipe what `find` gave
---@return string line
function M.about(recipe)
  local text = '\n' .. M.text(recipe)
  return text:match '\n%-%-%-%s*([^\n]*)' or ''
end

--- Print an error of a recipe on standard error.
---@param failure any what `report.catch` made
local function complain(failure)
  if type(failure) ~= 'table' or not failure.frames then
    failure = { message = tostring(failure), frames = {}, traceback = '' }
  end
  io.stdout:flush()
  colour.enabled = colour.wanted(host.is_terminal(2))
  io.stderr:write(report.text(failure), '\n')
end

local CODES = { EINTR = 130, ELATE = 5 } -- statuses of errors that have one of their own

--- Run a chunk of a file or of standard input.
---@param source string its text
---@param name string its name, as loadstring takes it
---@param argv string[] arg of the chunk, with the name at 0
---@param hooks table|nil after: called with what the chunk returns; stop: raised to end it in good
---  order
---@return integer status for the shell
function M.execute(source, name, argv, hooks)
  local chunk, message = loadstring(source:gsub('^#[^\n]*', '', 1), name)
  if not chunk then
    complain(report.syntax(message))
    return 1
  end
  rawset(_G, 'arg', argv)
  if os.getenv 'RIDGE_LAUNCHED' then io.stdout:setvbuf 'line' end -- a rank's is a pipe
  local kind = name == '=stdin' and 'once' or 'recipe'
  setfenv(chunk, environment.recipe(kind == 'once'))
  local body = chunk
  if hooks then body = function(...) return hooks.after(chunk(...)) end end
  local ok, result, interrupted = host.call(kind, body, report.catch, unpack(argv))
  if not ok and hooks and type(result) == 'table' and result.value == hooks.stop then return 0 end
  if not ok then
    if interrupted then
      io.stdout:flush()
      io.stderr:write 'interrupted\n'
      return 130
    end
    complain(result)
    return type(result) == 'table' and CODES[result.code] or 1
  end
  if type(result) == 'number' and result >= 0 and result <= 255 and result % 1 == 0 then
    if result ~= 0 then return result end
  end
  return host.stopping() and 130 or 0
end

-- Where a recipe's modules are looked for, and what it is called.
local function place(recipe, argv)
  local path = recipe.path or 'recipes/' .. recipe.name .. '.lua'
  argv[0] = recipe.path or recipe.name
  if recipe.path then
    local folder = path:match '^(.*)/[^/]*$' or '.'
    package.path = folder .. '/?.lua;' .. folder .. '/?/init.lua;' .. package.path
  end
  return path
end

--- The sweep of a recipe: it is run as far as the first `sw:run`, which runs nothing.
---@param recipe ridge.cli.Recipe what `find` gave
---@param argv string[] its arguments
---@return table sweep
function M.sweep_of(recipe, argv)
  local sweep, blame = require 'ridge.sweep', require 'ridge.blame'
  local path, found, done = place(recipe, argv), nil, {}
  local chunk, message = loadstring(M.text(recipe):gsub('^#[^\n]*', '', 1), '@' .. path)
  if not chunk then blame.raise(message) end
  rawset(_G, 'arg', argv)
  setfenv(chunk, environment.recipe())
  sweep.intercept = function(sw)
    found = sw
    error(done, 0)
  end
  local ok, result = pcall(chunk, unpack(argv))
  sweep.intercept = nil
  if not ok and result ~= done then error(result, 0) end
  found = found or (sweep.is(result) and result) or nil
  if not found then blame.raise(('the recipe %s runs no sweep'):format(argv[0])) end
  return found
end

--- Run a recipe; its own folder comes first in package.path.
---@param recipe ridge.cli.Recipe what `find` gave
---@param argv string[] its arguments; [0] becomes its path
---@param hooks table|nil as of `execute`
---@return integer status for the shell
function M.run(recipe, argv, hooks)
  local path = place(recipe, argv)
  host.settings.restarts = true -- the same command line again runs the same recipe
  return M.execute(M.text(recipe), '@' .. path, argv, hooks)
end

local STOP = {} -- what a recipe's os.exit raises

--- Run a recipe as a function that is given to another one, which looks on. What the recipe raises
--- is told where it is raised, as by `run`; its os.exit ends the recipe alone. ridge is loaded
--- before it: that is no part of what is looked at, and a recipe may do without it.
---@param recipe ridge.cli.Recipe what `find` gave
---@param argv string[] its arguments
---@param around fun(f: function): any
---@return any what `around` returned
---@return integer status for the shell
function M.within(recipe, argv, around)
  require 'ridge'
  local status, exit, code = nil, os.exit, nil
  os.exit = function(given) -- luacheck: ignore 122
    code = (given == nil or given == true) and 0 or given or 1
    error(STOP, 0)
  end
  local ok, result = pcall(around, function()
    status = M.run(recipe, argv, { after = function(...) return ... end, stop = STOP })
  end)
  os.exit = exit -- luacheck: ignore 122
  if not ok then error(result, 0) end
  return result, code or status
end

return M
