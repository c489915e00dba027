-- SPDX-License-Identifier: MIT
--- Commands as calls: ridge.top('widths', { by = 'fwd.gflops', n = 5 }) prints what
--- `ridge top widths --by fwd.gflops -n 5` prints. Words come first, options as a table last; what
--- is wrong is an error at the caller's line.

local blame = require 'ridge.blame'
local help = require 'ridge.repl.help'
local stored = require 'ridge.cli.stored'

local M = {}

-- One option as words: true is the flag alone, a list comes once for each value.
local function add(argv, what, name, value)
  local flag = '--' .. name:gsub('_', '-')
  if value == true then
    argv[#argv + 1] = flag
  elseif type(value) == 'table' then
    for key, each in pairs(value) do
      if type(key) ~= 'number' or type(each) ~= 'string' and type(each) ~= 'number' then
        blame.raise(('%s: option %s is a table, and no list of texts and numbers'):format(what,
          name), 'EARG', what)
      end
    end
    for _, each in ipairs(value) do add(argv, what, name, each) end
    if #value == 0 then argv.off[#argv.off + 1] = name end
  elseif type(value) == 'string' or type(value) == 'number' then
    argv[#argv + 1] = ('%s=%s'):format(flag, tostring(value))
  elseif value == false then
    argv.off[#argv.off + 1] = name
  else
    blame.raise(('%s: option %s is %s; expected a text, a number or a boolean'):format(what, name,
      blame.show(value)), 'EARG', what)
  end
end

local function words_of(what, ...)
  local given, argv, opts = { ... }, { off = {}, once = true }, nil
  for i = 1, select('#', ...) do
    local word = given[i]
    if type(word) == 'table' and i == select('#', ...) then
      opts = word
    elseif type(word) == 'string' or type(word) == 'number' then
      argv[#argv + 1] = tostring(word)
    else
      blame.raise(('%s: argument %d is %s; expected words, then a table of options'):format(what, i,
        blame.show(word)), 'EARG', what)
    end
  end
  local names = {}
  for name in pairs(opts or {}) do
    if type(name) ~= 'string' then
      blame.raise(('%s: options are named'):format(what), 'EARG', what)
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do add(argv, what, name, opts[name]) end
  return argv
end

-- Run the command; what it says of a mistake is raised instead of printed.
local function run(what, ...)
  local argv = words_of(what, ...)
  local before = stored.fails
  stored.fails = function(name, message)
    blame.raise(('%s: %s'):format(name, message), 'EARG', name)
  end
  local ok, status = pcall(require('ridge.cli.' .. what).main, argv)
  stored.fails = before
  if not ok then error(status, 0) end
  return status
end

for _, name in ipairs { 'top', 'best', 'show', 'retry', 'export', 'watch', 'replay', 'db', 'replot',
                        'doctor', 'note', 'report' } do
  M[name] = function(...)
    local status = run(name, ...)
    if status ~= 0 then return status end -- at the prompt, nothing more is to be shown
  end
  help.describe(M[name], function(title)
    local command = require('ridge.cli.' .. name)
    return ('%s(words ..., { option = value })\n  %s\n  as in the shell: %s\n  its options: ridge '
      .. '%s --help'):format(title, command.summary, command.usage, name)
  end)
end

return M
