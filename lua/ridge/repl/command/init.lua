-- SPDX-License-Identifier: MIT
--- Lines that are no Lua: `%name ...` is a command of the prompt, `!...` goes to the shell, and
-- `x = !...` keeps the lines it prints. None of these can begin a Lua text.
--
-- A command is { usage =, about =, takes =, run = function(session, request) }. `takes` says what
-- stands behind the name: 'code' is compiled before the command runs, so that it may go on in the
-- next line; 'file' is completed with file names; 'words' is anything else.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local near = require 'ridge.near'

local M = {}

-- Which file a command is in; loaded when one is asked for.
local FILES = { 'bench', 'errors', 'files', 'memory', 'profile', 'results', 'settings', 'time',
  'typed' }

local commands

local function all()
  if commands then return commands end
  commands = {}
  for _, file in ipairs(FILES) do
    for name, entry in pairs(require('ridge.repl.command.' .. file)) do commands[name] = entry end
  end
  return commands
end

--- The names of all commands, sorted.
---@return string[] names
function M.names()
  local names = {}
  for name in pairs(all()) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- What stands behind a command's name: 'code', 'file' or 'words'; nil if there is no such command.
---@param name string without %
---@return string|nil takes
function M.takes(name)
  local entry = all()[name]
  return entry and entry.takes or nil
end

--- Help on a command, or on all of them.
---@param name string|nil without %
---@return string|nil text nil if there is no such command
function M.help(name)
  if name and name ~= '' then
    local entry = all()[name]
    if not entry then return nil end
    return colour.paint('bold', entry.usage) .. '\n  ' .. entry.about:gsub('\n', '\n  ')
  end
  local rows = {}
  for _, each in ipairs(M.names()) do
    local entry = all()[each]
    rows[#rows + 1] = { entry.usage, (entry.about:match '^[^\n]*') }
  end
  rows[#rows + 1] = { '!COMMAND', 'run it in the shell; x = !COMMAND keeps its lines' }
  return columns.text({ 'command', '?%name says more' }, rows)
end

---@class ridge.repl.Request
---@field kind 'command'|'shell' what the line is
---@field name string|nil of the command, or of the variable that keeps the shell's lines
---@field rest string what stands behind it
---@field takes string|nil see above
---@field parsed ridge.repl.Parsed|nil the code, compiled in the session's environment

--- Read a line that is no Lua; nil if it is Lua.
---@param text string what was typed
---@return ridge.repl.Request|nil request
function M.read(text)
  local name, rest = text:match '^%s*%%%s*([%w_]*)%s*(.-)%s*$'
  if name then return { kind = 'command', name = name, rest = rest, takes = M.takes(name) } end
  rest = text:match '^%s*!%s*(.-)%s*$'
  if rest then return { kind = 'shell', rest = rest } end
  name, rest = text:match '^%s*([%a_][%w_]*)%s*=%s*!%s*(.-)%s*$'
  if name then return { kind = 'shell', name = name, rest = rest } end
  return nil
end

local function shell(session, request)
  if request.rest == '' then blame.raise '!: a command of the shell is expected' end
  io.stdout:flush()
  if not request.name then
    local status = os.execute(request.rest)
    if status ~= 0 then
      local signal = bit.band(status, 127)
      session.write(colour.paint('dim', signal ~= 0 and ('(ended by signal %d)'):format(signal)
        or ('(status %d)'):format(bit.rshift(status, 8))) .. '\n')
    end
    return
  end
  local pipe = assert(io.popen(request.rest))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  session.env[request.name] = lines
end

--- Do what a line asks for; what is wrong with it is raised.
---@param session table ridge.repl.session
---@param request ridge.repl.Request
function M.run(session, request)
  if request.kind == 'shell' then return shell(session, request) end
  if request.name == '' then
    session.write(M.help() .. '\n')
    return
  end
  local entry = all()[request.name]
  if not entry then
    blame.raise(('there is no command %%%s%s; %% lists them'):format(request.name,
      near.hint(request.name, M.names())))
  end
  entry.run(session, request)
end

return M
