-- SPDX-License-Identifier: MIT
--- Runs specs of operations in the ridge program itself, where neither busted nor luajit is
--- installed: a machine that has a GPU has often no packages.
--
--     ./ridge scripts/gpu/specs.lua FILE... [--filter PATTERN] [--names FILE] [--blocks A,B]
--       [--seconds N [--seed N]] [--own] [--untimed]
--
-- It knows what tests/op uses of busted, and nothing else of it. A failure is shown in full; a
-- device that is lost ends a process and not the run (lost.lua). The last line is `N passed, N
-- failed`, and how many were not reached; exit code 1 if anything failed or nothing was run.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib' -- tests/op/tensors.lua takes it from here

local lost = assert(loadfile((arg[0]:match '^(.*/)' or './') .. 'lost.lua'))()

local opt, files = ridge.args(lost.with {
  rest = 'FILE...',
  { 'filter', '', 'only those whose name, with the names around it, has this pattern' },
  { 'seconds', 0, 'begin no more after so long, of blocks in any order; 0: all', min = 0 },
  { 'seed', 1, 'of the order where not all may be reached', integer = true },
  { 'own', false, "with ridge's own kernels only" },
  { 'untimed', false, "libraries' first choices, none of them timed" },
  { 'names', '', 'a file: only tests whose whole name is a line of it' },
  { 'blocks', { '' }, 'only blocks of these names' },
})

local chosen -- names, as a set
if opt.names ~= '' then
  chosen = {}
  for line in io.lines(opt.names) do chosen[line] = true end
end
local blocks
for _, name in ipairs(opt.blocks) do
  if name ~= '' then
    blocks = blocks or {}
    blocks[name] = true
  end
end

-- -- What a spec says -----------------------------------------------------------------------------

local function shown(x)
  if type(x) ~= 'table' then return ('(%s) %s'):format(type(x), tostring(x)) end
  local list = {}
  for k, v in pairs(x) do list[#list + 1] = ('%s = %s'):format(tostring(k), shown(v)) end
  table.sort(list)
  return '{ ' .. table.concat(list, ', ') .. ' }'
end

local function same(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

local function sure(ok, what, wanted, got, message)
  if ok then return end
  error(('%s%s: wanted %s, got %s'):format(message and message .. ': ' or '', what, shown(wanted),
    shown(got)), 3)
end

local are = {
  equal = function(wanted, got, m) sure(wanted == got, 'equal', wanted, got, m) end,
  same = function(wanted, got, m) sure(same(wanted, got), 'same', wanted, got, m) end,
  not_same = function(unlike, got, m) sure(not same(unlike, got), 'not same', unlike, got, m) end,
}
local checks = { are = are, equal = are.equal, same = are.same, not_same = are.not_same,
  is_true = function(x, m) sure(x == true, 'is_true', true, x, m) end,
  is_nil = function(x, m) sure(x == nil, 'is_nil', nil, x, m) end,
  is_truthy = function(x, m) sure(x, 'is_truthy', true, x, m) end }
local asserted = setmetatable({}, {
  __call = function(_, ...) return assert(...) end,
  __index = function(_, name)
    return checks[name] or error('specs.lua does not know assert.' .. tostring(name), 2)
  end,
})

-- A block: its name, and what it has of its own.
local function block(name, outer)
  return { name = name, outer = outer, setup = {}, before_each = {}, after_each = {}, list = {} }
end

local at -- the block whose body runs

local env = setmetatable({ assert = asserted }, { __index = _G })
function env.describe(name, f)
  local b = block(name, at)
  at.list[#at.list + 1] = b
  at = b
  f()
  at = b.outer
end
function env.it(name, f) at.list[#at.list + 1] = { name = name, test = f } end
for _, when in ipairs { 'setup', 'before_each', 'after_each' } do
  env[when] = function(f) table.insert(at[when], f) end
end

-- -- Running --------------------------------------------------------------------------------------

local passed, failed, left = opt.carried[1], opt.carried[2] or 0, opt.carried[3] or 0
local met = 0 -- tests, whether they are run or not
local start = tonumber(C.rg_clock_ns())

local function late()
  return opt.seconds > 0 and tonumber(C.rg_clock_ns()) - start > opt.seconds * 1e9
end

local function fail(name, why)
  failed = failed + 1
  print(('not ok %s\n%s'):format(name, why))
  io.flush()
end

local function every(b, when)
  if b.outer and when == 'before_each' then every(b.outer, when) end
  for _, f in ipairs(b[when]) do f() end
  if b.outer and when == 'after_each' then every(b.outer, when) end
end

-- The device is lost: try this test alone, and go on behind it.
local function behind(name)
  if lost.is_alone() then return end
  lost.again(met)
  local more = {}
  if opt.seconds > 0 then
    local gone = (tonumber(C.rg_clock_ns()) - start) / 1e9
    more = { '--seconds', tostring(math.max(1, math.floor(opt.seconds - gone))) }
  end
  print('lost at ' .. name)
  lost.go_on(met + 1, { passed, failed, left }, more)
end

local function test(b, begun, entry, name)
  local ok, why = xpcall(function()
    if not begun then
      for _, f in ipairs(b.setup) do f() end
    end
    every(b, 'before_each')
    entry.test()
  end, debug.traceback)
  local after, why_after = xpcall(every, debug.traceback, b, 'after_each')
  local gone = lost.why()
  if ok and after and not gone then
    passed = passed + 1
  else
    fail(name, not ok and why or not after and why_after or gone)
  end
  if gone then behind(name) end
end

local function wants(name)
  return name:find(opt.filter) and (not chosen or chosen[name])
end

local function run(b, names, inside)
  local begun = false
  for _, entry in ipairs(b.list) do
    local name = (names .. ' ' .. entry.name):gsub('^ ', '')
    if not entry.test then
      run(entry, name, inside or not blocks or blocks[entry.name])
    elseif inside and wants(name) then
      met = met + 1
      if lost.wants(opt, met) and late() then
        left = left + 1
      elseif lost.wants(opt, met) then
        test(b, begun, entry, name)
        begun = true
      end
    end
  end
end

local function shuffle(list)
  math.randomseed(opt.seed)
  for i = #list, 2, -1 do
    local k = math.random(i)
    list[i], list[k] = list[k], list[i]
  end
end

if opt.own then C.rg_device_modes_now().vendor = 0 end
if opt.untimed then C.rg_device_modes_now().autotune = 0 end
for _, path in ipairs(files) do
  at = block('', nil)
  local chunk, why = loadfile(path)
  local ok = chunk ~= nil
  if ok then ok, why = xpcall(setfenv(chunk, env), debug.traceback) end
  if ok and opt.seconds > 0 then shuffle(at.list) end
  if ok then run(at, '', not blocks) else fail(path, why) end
end
print(('%d passed, %d failed%s'):format(passed, failed,
  left > 0 and (', %d not reached'):format(left) or ''))
os.exit(failed == 0 and passed > 0 and 0 or 1)
