-- SPDX-License-Identifier: MIT
--- What scripts do about a device that was lost: after an illegal access nothing runs on it in that
--- process any more, so whatever came behind it would seem to be wrong as well. Whoever runs tests
--- waits after each, and where the device is lost tries that test alone (with launches that block,
--- whose error names the operation; then under memcheck, which names the kernel) and goes on behind
--- it in a new process.
--
--     local lost = assert(loadfile(HERE .. 'lost.lua'))()
--     ... run test number n ...
--     local why = lost.why()
--     if why then
--       lost.again(n)
--       lost.go_on(n + 1, counts)
--     end
--
-- The script knows --test N (only that one), --from N and --carried A,B,C (counted before).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

ffi.cdef 'int execv(const char *path, const char *const *arguments);'

local EDEVICE, DEVICE = -6, 1
local OWN = { test = true, from = true, carried = true }
local SELF = assert(io.popen 'readlink /proc/$PPID/exe'):read '*l'

local M = {}

--- The options that go with it, for the list of a script's own.
M.OPTIONS = {
  { 'test', 0, 'only the test of this number; 0: all', min = 0, integer = true },
  { 'from', 1, 'tests from this number on', min = 1, integer = true },
  { 'carried', { 0 }, 'what was counted before' },
}

--- Put them behind a script's own options.
---@param options table
---@return table options
function M.with(options)
  for _, option in ipairs(M.OPTIONS) do options[#options + 1] = option end
  return options
end

--- Is the test of this number one to be run?
---@param opt table the script's options
---@param number integer
---@return boolean
function M.wants(opt, number)
  if opt.test > 0 then return number == opt.test end
  return number >= opt.from
end

--- Wait for the device, where one was opened: nil, or why nothing runs on it any more.
---@return string|nil
function M.why()
  if C.rg_memory_of(DEVICE) == nil or C.rg_device_wait(DEVICE) ~= EDEVICE then return nil end
  return ffi.string(C.rg_error_message())
end

-- The arguments of this call without those that say which tests, and these behind them.
local function arguments(more)
  local list, i = { arg[0] }, 1
  while arg[i] do
    local name = arg[i]:match '^%-%-([%w_-]+)'
    if not OWN[name] then
      list[#list + 1] = arg[i]
    elseif not arg[i]:find('=', 1, true) then
      i = i + 1 -- its value
    end
    i = i + 1
  end
  for _, word in ipairs(more) do list[#list + 1] = word end
  return list
end

local function quoted(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  return table.concat(list, ' ')
end

--- Run one test again, alone, and print what is said of it: with launches that block, and under
--- memcheck where that is here (not where this process is under a sanitizer itself).
---@param number integer
function M.again(number)
  local command = quoted { SELF } .. ' ' .. quoted(arguments { '--test', tostring(number) })
  local seconds = 20 * (tonumber(os.getenv 'GPU_CHECK_SLOWER') or 1)
  local ways = { { 'blocking', ('CUDA_LAUNCH_BLOCKING=1 timeout %d %s'):format(seconds, command) } }
  if not os.getenv 'GPU_CHECK_SANITIZED'
    and os.execute 'command -v compute-sanitizer >/dev/null' == 0 then
    ways[2] = { 'memcheck', 'timeout 40 compute-sanitizer --tool memcheck ' .. command }
  end
  for _, way in ipairs(ways) do
    print(('# test %d again, %s:'):format(number, way[1]))
    io.flush()
    os.execute(('GPU_CHECK_ALONE=1 %s </dev/null 2>&1 | head -n 60 | sed "s/^/# %s: /"'):format(
      way[2], way[1]))
  end
end

--- Is this process one that was started for one test? Then it starts no others.
---@return boolean
function M.is_alone()
  return os.getenv 'GPU_CHECK_ALONE' ~= nil
end

--- Go on from a test in a new process, which takes the place of this one.
---@param from integer
---@param carried table numbers
---@param more table|nil further arguments, which win over those before
function M.go_on(from, carried, more)
  local list = arguments { '--from', tostring(from), '--carried', table.concat(carried, ',') }
  for _, word in ipairs(more or {}) do list[#list + 1] = word end
  local argv = ffi.new('const char *[?]', #list + 2)
  argv[0] = SELF
  for i, word in ipairs(list) do argv[i] = word end
  print(('# the device was lost: on from test %d in a new process'):format(from))
  io.flush()
  ffi.C.execv(SELF, argv)
  error('no new process can be started', 0)
end

return M
