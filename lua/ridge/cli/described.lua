-- SPDX-License-Identifier: MIT
--- What the subcommands take, from the tables that read their arguments: for completion in a shell
--- and for the manual page.

local args = require 'ridge.cli.args'
local commands = require 'ridge.cli.commands'

local M = {}

---@class ridge.cli.Described
---@field name string as typed: 'batch-size'
---@field summary string what it does: an example
---@field usage string
---@field about? string
---@field rest? string the free arguments
---@field options ridge.cli.DescribedOption[]

---@class ridge.cli.DescribedOption
---@field flag string '--no-reuse', or '-x' where the name is one letter
---@field short? string '-P'
---@field takes? string 'N', 'TEXT' or 'A,B,..'; nil: it stands alone
---@field choices? string[]
---@field default? string
---@field writes? string 'file', 'folder' or 'either'
---@field does string

-- Reading its arguments is the first thing that a command does: the reader ends it there.
local function spec_of(command)
  local read, seen = args.read, nil
  args.read = function(spec)
    seen = seen or spec
    error('described', 0)
  end
  pcall(command.main, { '--help' })
  args.read = read
  return seen or {}
end

local function option_of(option)
  local left, takes = args.left(option)
  local choices = {}
  for _, choice in ipairs(option.choices or {}) do
    if choice ~= '' then choices[#choices + 1] = tostring(choice) end
  end
  local default = option[2]
  return { flag = left, short = option.short and #option[1] > 1 and '-' .. option.short or nil,
    takes = takes, choices = #choices > 0 and choices or nil, does = option[3] or '',
    writes = option.writes, default = type(default) ~= 'boolean' and args.shown(default) ~= ''
      and args.shown(default) or nil }
end

--- All subcommands, by name.
---@return ridge.cli.Described[]
function M.all()
  local list = {}
  for i, name in ipairs(commands.names()) do
    local command = commands.find(name)
    local spec = name == 'help' and { rest = 'topic' } or spec_of(command)
    local options = {}
    for k, option in ipairs(spec) do options[k] = option_of(option) end
    options[#options + 1] = { flag = '--help', does = 'this text' }
    list[i] = { name = name, summary = command.summary, usage = command.usage, about = spec.about,
      rest = spec.rest, options = options }
  end
  return list
end

--- The flags that stand before a file or a command.
---@return ridge.cli.DescribedOption[]
function M.flags()
  local list = {}
  for i, flag in ipairs(commands.FLAGS) do
    list[i] = { flag = flag[1], takes = flag[2] ~= '' and flag[2] or nil, does = flag[3] }
  end
  return list
end

return M
