-- SPDX-License-Identifier: MIT
--- The subcommands: a module ridge.cli.NAME with `summary`, `usage` and `main(argv)` is one, and is
--- found by its name.

local near = require 'ridge.near'

local M = {}

local USAGE = [[
usage: ridge [flags]                 the prompt
       ridge [flags] file.lua [args] run a file
       ridge [flags] -e CODE         run code, print its values
       ridge [flags] -i [file.lua]   run a file, then the prompt with its variables
       ridge [flags] -               run standard input
       ridge [flags] COMMAND [args]  see below
]]

--- What may stand before a file or a command: flag, the value it takes, what it does.
M.FLAGS = {
  { '--threads', 'N', 'compute threads' }, { '--device', 'D', 'cpu, auto, cuda:0' },
  { '--affinity', 'L', 'processors, such as 0-3' },
  { '--priority', 'N', '-20 before others .. 19 behind them' },
  { '--seed', 'N', 'seed of random numbers' }, { '--quiet', '', 'no banner, no notes' },
  { '--trace', 'full', 'whole tracebacks' }, { '--no-jit', '', 'interpret only' },
  { '--version', '', '' }, { '--help', '', '' },
}

-- Two of them a line.
local function flags()
  local lines = {}
  for i = 1, #M.FLAGS, 2 do
    local a, b = M.FLAGS[i], M.FLAGS[i + 1]
    local form = a[3] == '' and '%-14s%s%s%s' or '%-13s %-24s %-12s %s'
    lines[#lines + 1] = form:format(a[1] .. ' ' .. a[2], a[3], b[1] .. ' ' .. b[2], b[3])
      :gsub(' +$', '')
  end
  return 'flags  ' .. table.concat(lines, '\n       ') .. '\n'
end


local function is_command(module)
  return type(module) == 'table' and module.usage ~= nil and module.main ~= nil
end

--- The subcommand of a name, or nil; an error inside it is raised.
---@param name string as typed
---@return table|nil module
function M.find(name)
  if not name:find '^%l[%w_-]*$' then return nil end
  name = name:gsub('%-', '_')
  local ok, module = pcall(require, 'ridge.cli.' .. name)
  if ok then return is_command(module) and module or nil end
  if not tostring(module):find(("module 'ridge.cli.%s' not found"):format(name), 1, true) then
    error(module, 0)
  end
  return nil
end

--- The names of all subcommands, sorted.
---@return string[] names
function M.names()
  local names = {}
  for _, path in ipairs(require('ridge.repl.sources').files()) do
    local name = path:match '^ridge/cli/([%w_]+)%.lua$'
    if name and M.find(name) then names[#names + 1] = (name:gsub('_', '-')) end
  end
  return names
end

--- What to say of a name that is neither a command nor a recipe.
---@param name string as typed
---@return string sentence
function M.unknown(name)
  return ("there is no file, command or recipe '%s'%s"):format(name, near.hint(name, M.names()))
end

--- What `ridge --help` prints.
---@return string text
function M.help()
  local lines, names, width = { USAGE .. '\n' .. flags() .. '\ncommands' }, M.names(), 0
  for _, name in ipairs(names) do width = math.max(width, #name) end
  for _, name in ipairs(names) do
    lines[#lines + 1] = ('  %-' .. width .. 's  %s'):format(name, M.find(name).summary)
  end
  return table.concat(lines, '\n') .. '\n'
end

return M
