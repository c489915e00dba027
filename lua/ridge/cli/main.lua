-- SPDX-License-Identifier: MIT
--- The command line of `ridge`: flags, then a file, a subcommand, code, or the prompt.
--
-- Statuses: 0 done, 1 error or usage, 2 some points failed, 130 interrupted.

require 'ridge.pairs' -- first: loops that had run hot with Lua's own were seen to lose entries
local commands = require 'ridge.cli.commands'
local host = require 'ridge.host'
local near = require 'ridge.near'
require 'ridge.state' -- before anybody keeps coroutine.resume as it was

--- What stays true of the whole process, before anything else is loaded.
local function prepare()
  if not require('ffi').abi 'gc64' then
    error('this LuaJIT is built without GC64 and cannot hold more than 1 GB; ridge needs it', 0)
  end
  -- larger than LuaJIT's own limits: training code is many traces (OpenResty raises the same ones)
  require('jit.opt').start('maxtrace=8000', 'maxrecord=16000', 'maxmcode=16384', 'sizemcode=64')
  local exit = os.exit
  -- os.exit as it is runs no finalizer: files would stay unwritten, databases open
  os.exit = function(status) -- luacheck: ignore 122
    if host.editor then host.editor.close() end
    if status == nil or status == true then status = 0 end
    if status == false then status = 1 end
    exit(type(status) == 'number' and host.ended(status) or status, true)
  end
end

local function usage_error(message)
  io.stderr:write('ridge: ', message, '\ntry: ridge --help\n')
  return 1
end

-- -- Flags ------------------------------------------------------------------------

local FLAGS = {}

function FLAGS.threads(text)
  local n = tonumber(text)
  if not n or n ~= math.floor(n) then return nil, ("--threads: '%s' is no number"):format(text) end
  if math.abs(n) > 2 ^ 31 then
    return nil, ('--threads: %s is not in 0 .. 1024'):format(text)
  end
  local ok, reason = host.set_threads(n)
  if not ok then return nil, '--' .. reason end -- 'threads: ...'
  host.settings.threads = n
  return true
end

function FLAGS.seed(text)
  local n = tonumber(text)
  -- what is above 2^53 may have been rounded to it
  if not n or n ~= math.floor(n) or n < 0 or n > 2 ^ 53
      or n == 2 ^ 53 and text ~= '9007199254740992' then
    return nil, ("--seed: '%s' is no whole number from 0 to 2^53"):format(text)
  end
  host.seed(n)
  host.settings.seed = n
  return true
end

function FLAGS.device(text)
  if text ~= 'cpu' and text ~= 'auto' then -- a GPU is opened now: the answer comes before the file
    local ok, err = pcall(require('ridge.tensor.dtype').device, text, '--device')
    if not ok then return nil, tostring(err.message or err) end
  end
  host.settings.device = text
  return true
end

-- '0-3,8' as a list
local function processors(text)
  local list = {}
  for item in text:gmatch '[^,]+' do
    local first, last = item:match '^(%d+)%-(%d+)$'
    first = tonumber(first or item:match '^%d+$')
    last = tonumber(last) or first
    if not first or last < first or last > 4095 then return nil end
    for cpu = first, last do list[#list + 1] = cpu end
  end
  return #list > 0 and list or nil
end

function FLAGS.affinity(text)
  local list = processors(text)
  if not list then return nil, ("--affinity: '%s' is no list like 0-3,8"):format(text) end
  host.settings.affinity = list
  return true
end

-- Binding is last: it binds the threads that --threads asked for.
local function bind()
  if not host.settings.affinity then return true end
  local ok, err = pcall(require('ridge.backend').set_affinity, host.settings.affinity)
  if not ok then
    return nil, '--affinity: ' .. tostring(err.message or err):gsub('^set_affinity: ', '')
  end
  return true
end

function FLAGS.priority(text)
  local n = tonumber(text)
  if not n then return nil, ("--priority: '%s' is no number"):format(text) end
  local ok, err = pcall(require('ridge.backend').set_priority, n)
  if not ok then
    return nil, '--priority: ' .. tostring(err.message or err):gsub('^set_priority: ', '')
  end
  host.settings.priority = n
  return true
end

function FLAGS.trace(text)
  if text ~= 'full' and text ~= 'short' then
    return nil, ("--trace: '%s' is neither full nor short"):format(text)
  end
  host.settings.trace = text
  return true
end

local SWITCHES = {
  quiet = function() host.settings.quiet = true end,
  ['no-jit'] = function() require('jit').off() end,
}

--- Read the flags in front; what to do with the rest.
---@return table|nil plan
---@return string|nil reason
local function read(argv)
  local plan, i = { code = {} }, 1
  while argv[i] do
    local word = argv[i]
    local name, value = word:match '^%-%-([%l%-]+)=?(.*)$'
    if word == '-e' then
      i = i + 1
      if not argv[i] then return nil, '-e needs code' end
      plan.code[#plan.code + 1] = argv[i]
    elseif word == '-i' then
      plan.interactive = true
    elseif word == '-h' or word == '--help' then
      plan.help = true
    elseif word == '-v' or word == '--version' then
      plan.version = true
    elseif name and SWITCHES[name] then
      if word:find('=', 1, true) then return nil, ('--%s takes no value'):format(name) end
      SWITCHES[name]()
    elseif name and FLAGS[name] then
      if not word:find('=', 1, true) then
        i = i + 1
        value = argv[i]
      end
      if not value or value == '' then return nil, ('--%s needs a value'):format(name) end
      local ok, reason = FLAGS[name](value)
      if not ok then return nil, reason end
    elseif word:find '^%-.' then
      local names = { 'help', 'version' }
      for known in pairs(FLAGS) do names[#names + 1] = known end
      for known in pairs(SWITCHES) do names[#names + 1] = known end
      return nil, ("unknown flag '%s'%s"):format(word, near.hint(word:gsub('^%-+', ''), names))
    else
      break
    end
    i = i + 1
  end
  local ok, reason = bind()
  if not ok then return nil, reason end
  plan.target = argv[i]
  plan.args = { unpack(argv, i + 1) }
  return plan
end

-- -- What to do --------------------------------------------------------------------

local function print_version()
  local jit = require 'jit'
  io.stdout:write(('ridge %s (%s, %s %s)\n'):format(host.version, jit.version, jit.os, jit.arch))
  return 0
end

local function prompt(current)
  local colour = require 'ridge.show.colour'
  local terminal = host.is_terminal(0) and host.is_terminal(1)
  colour.enabled = colour.wanted(terminal)
  -- a loop typed by mistake that fills memory must end in an error, not with the process
  local _, _, _, ram = host.machine()
  if terminal and ram > 0 then host.limit_memory(0.9 * ram) end
  return require('ridge.repl.loop').run {
    terminal = terminal, quiet = host.settings.quiet, session = current,
  }
end

local function new_session(name)
  return require('ridge.repl.session').new {
    bare = name ~= nil, name = name,
    write = function(text) io.stdout:write(text) end,
    complain = name and function(text)
      io.stdout:flush()
      io.stderr:write(text)
    end,
  }
end

local OUTCOMES = { done = 0, failed = 1, incomplete = 1, interrupted = 130 }

--- -e: every code in turn, until one fails.
local function run_code(plan, current)
  for _, code in ipairs(plan.code) do
    local outcome = current:run(code)
    if outcome == 'incomplete' then current:fail_incomplete(code) end
    if outcome ~= 'done' then return OUTCOMES[outcome] end
  end
  return 0
end

local function set_arg(name, args)
  args[0] = name
  rawset(_G, 'arg', args)
end

local function interactive(plan)
  local current = new_session()
  set_arg(plan.target or 'ridge', plan.args)
  for _, code in ipairs(plan.code) do current:run(code) end
  if plan.target then current:load(plan.target) end
  return prompt(current)
end

local function run_target(plan)
  local recipe = require 'ridge.cli.recipe'
  local target = plan.target
  if target == '-' then
    plan.args[0] = '-'
    return recipe.execute(io.stdin:read '*a', '=stdin', plan.args)
  end
  local module = not target:find '[/.]' and commands.find(target)
  if module then
    local catch = require('ridge.repl.report').catch
    local ok, result, interrupted
    if module.guards then -- what it runs is guarded there, each by itself
      ok, result = xpcall(module.main, catch, plan.args)
    else
      ok, result, interrupted = host.call('once', module.main, catch, plan.args)
    end
    if ok then return result or 0 end
    if interrupted then return 130 end
    if result.code and not result.frames[1] then -- a mistake in what was typed: no line is to blame
      return require('ridge.cli.stored').fail(target, result.message)
    end
    io.stderr:write(require('ridge.repl.report').text(result), '\n')
    return 1
  end
  local found, reason = recipe.find(target)
  if not found then
    return usage_error(target:find '[/.]' and reason or commands.unknown(target))
  end
  return recipe.run(found, plan.args)
end

--- What the program does; called by lua/host.c.
---@param argv string[] the command line, the program's name at 0
---@return integer status for the shell
local function main(argv)
  prepare()
  local plan, reason = read(argv)
  if not plan then return usage_error(reason) end
  if plan.help then
    io.stdout:write(commands.help())
    return 0
  end
  if plan.version then return print_version() end
  if plan.interactive then return interactive(plan) end
  if #plan.code > 0 then
    table.insert(plan.args, 1, plan.target) -- everything behind the code belongs to it
    set_arg('-e', plan.args)
    return run_code(plan, new_session '-e')
  end
  if plan.target then return run_target(plan) end
  return prompt()
end

return main
