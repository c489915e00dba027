-- SPDX-License-Identifier: MIT
-- What the prompt answers, word by word: each group of lines is typed into one session without a
-- terminal, and its text is tests/approved/repl/GROUP.txt.  Nothing here is timed, and no number
-- depends on how a product is summed.

local approved = dofile 'tests/lua/approved.lua'
local complete = require 'ridge.repl.complete'
local folders = dofile 'tests/lua/store/folder.lua'
local help = require 'ridge.repl.help'
local history = require 'ridge.repl.history'
local session = require 'ridge.repl.session'

require 'ridge' -- help reads what is loaded

local GROUPS = {}

GROUPS.values = [[
1
-0
1/0, -1/0, 0/0
1e300, 2^53, 0.1, 1e-7
'text'
"two\nlines"
nil
true, false, nil
{}
{ 1, 2, 3 }
{ 1, 2, name = 'x', [10] = 'ten', [true] = 1, ['not a name'] = 2, ['end'] = 3 }
{ { { { { 'deep' } } } } }
{ 'a\tb', 'it\'s', 'back\\slash', '\0\27[31m' }
t = {} for i = 1, 120 do t[i] = i end
t
t = { 1 } t.self = t
t
{ long = ('x'):rep(500) }
{ ('word '):rep(10), ('word '):rep(10) }
{ f = function() end }
function f() return 1, nil end
f
f()
f(), f()
x = 5
local y = 6
y
_
x + y
_, _1, _2
setmetatable({}, { __tostring = function() return 'me' end })
setmetatable({ 1 }, {})
{ setmetatable({}, { __tostring = function() return 'one\nme' end }) }
setmetatable({ 2 }, { __tostring = function() error 'no text' end })
2^63, 12345678901234567890, 1LL, 2ULL, 3i
return 7
= 8
;
-- a comment
x; y
for i = 1, 2 do print(i) end
ridge.tensor { 1, 2, 3 }
{ ridge.tensor { 1, 2 }, name = ridge.zeros(2, 2) }
ridge.f32
]]

GROUPS.errors = [[
zork
riddge.zeros(2)
x = )
1 +
x = 'open
for
end
error 'no luck'
error { code = 3 }
error()
function f() error 'inside' end f()
function g() f() end function h() g() end h()
%tb
nil + 1
({}).x.y
('x'):zork()
ridge.zerso(2)
ridge.zeros(2):summ()
ridge.zeros(2) + ridge.zeros(3)
ridge.nn.Linear(2)
ridge.nn.Linear(2, 3)(ridge.zeros(4, 5))
ridge.zeros(-1)
ridge.zeros(2):view(3)
ridge.tensor { 1, { 2 } }
x = ridge.zeros(2) x:zork()
local a, b = 1, { 2 } error 'with locals'
%debug
function withlocals(n, text) local t = { n } return t[1] + text end withlocals(1, 'x')
%debug
help
exit
quit
ridge.nn.Liner(1, 2)
assert(false)
assert(nil, 'with a reason')
x.y.z = 1
#nil
1 < 'x'
{} .. 'x'
goto nowhere
break
return return
x = = 1
]]

GROUPS.commands = [[
%tb
%debug
%
%zork
%tim 1
%who
%mem x y
%bench
%bench --zork 1
%bench --quick
%plot
%plot 1
%plot 'text'
%plot {}
%plot ridge.zeros(2, 2, 2)
%plot ridge.zeros(0)
%run
%run FOLDER/none.lua
%run FOLDER/file.lua one two
from_file
%run FOLDER/wrong.lua
%reload
%reload a b
m = require 'beside'
%reload beside
n = m
%reload beside
%save
%save FOLDER/saved.lua
%save FOLDER/saved.lua
%save FOLDER/last.lua 1
%save FOLDER/none/saved.lua
%edit FOLDER/edited.lua
edited = edited * 2
%edit
edited
%edit FOLDER/none.lua
%history zork
%seed x
%seed 7
%seed
%set
%set zork
%set thread 2
%set threads x
%set threads -1
%set threads 99999
%set threads 1
%set trace loud
%set colour maybe
%set colour off
%set jit perhaps
%set jit on
%set isa none
%set gemm none
%sql --db FOLDER/none.db
%sql --db FOLDER/s.db
%sql --db FOLDER/s.db SELECT name, generation FROM sweep
%sql --db FOLDER/s.db SELECT count(*) AS n, 1.5 AS half, NULL AS none FROM sweep
%sql --db=FOLDER/s.db SELECT 9007199254740993 AS large
%sql --db FOLDER/s.db SELECT * FROM sweep WHERE 0
%sql --db FOLDER/s.db SELEC
%sql --db FOLDER/s.db DELETE FROM sweep
%sql --db FOLDER/s.db SELECT trial, fwd FROM "widths" ORDER BY fwd
%sql --db FOLDER/s.db SELECT a.id FROM attempt a, attempt b LIMIT 42
#_, _[42].id
%tb
%debug
!
!true
!exit 3
!kill -9 $$
lines = !printf 'one\ntwo\n'
lines
empty = !true
empty
a_string, a_number, a_table, a_tensor = 'text', 12, { 1, { 2 } }, ridge.zeros(3, 4)
released = ridge.zeros(2) released:release()
net = ridge.nn.Linear(2, 3)
%who
%who a_
%who zork
%history
%history 2
%history who
]]

GROUPS.plots = [[
%plot { 1, 2, 3, 2, 1 }
%plot { 0, 0, 0 }
%plot { 1, 0/0, 3, 1/0 }
%plot { 0/0 }
t = {} for i = 1, 400 do t[i] = i end
%plot t
%plot ridge.tensor { 1, 2, 4, 8, 16 }
%plot { { 1, 2, 3 }, { 4, 5, 6 } }
%plot { { 1, 0/0 }, { 1, 1 } }
%plot { { 0/0 } }
%plot ridge.arange(0, 4799):view(48, 100)
%plot ridge.arange(0, 29):view(30, 1)
%plot ridge.arange(0, 99):view(1, 100)
]]

GROUPS.structure = [[
str(1)
str 'text'
str(nil)
str {}
str { 1, 2, 3 }
str { 1, 2, x = 3 }
str { 1, { 2, { 3, { 4 } } } }
str { name = 'x', list = { 1, 2 }, [2] = 'two', [true] = 'yes' }
t = { 1 } t.t = t str(t)
t = {} for i = 1, 30 do t['k' .. i] = {} end str(t)
t = {} for i = 1, 30 do t[i] = i end str(t)
str(ridge.arange(0, 3))
str(ridge.arange(0, 8))
str(ridge.zeros(0, 3))
str(ridge.tensor { 1, 0/0 })
str { ridge.zeros(2), net = ridge.nn.ReLU() }
x = ridge.zeros(2) x:release() str(x)
str(ridge.nn.Sequential(ridge.nn.ReLU(), ridge.nn.Sequential(ridge.nn.Tanh())))
summary(ridge.arange(0, 101))
summary { 1, 2, 3, 4 }
summary(ridge.tensor { 1, 0/0, 1/0, -1/0, 5 })
summary(ridge.tensor { 0/0 })
summary(ridge.tensor { 3, 3, 3 })
summary(ridge.tensor { 2 })
summary(ridge.zeros(0))
summary(ridge.tensor({ true, false, true, true }, { dtype = 'bool' }))
summary(ridge.tensor({ 1, 2, 300 }, { dtype = 'i32' }))
summary(ridge.arange(0, 600000))
summary { x = 1 }
summary 'text'
summary(nil)
summary(ridge.nn.ReLU())
summary(ridge.nn.Linear(1, 1, { bias = false }))
net = ridge.nn.Sequential(ridge.nn.Linear(4, 8), ridge.nn.ReLU(), ridge.nn.Linear(8, 1))
summary(net)
summary(net, { input = { 3, 4 } })
summary(net, { input = ridge.zeros(5, 4) })
summary(net, { inputs = { 3, 4 } })
summary(net, { input = 3 })
summary(net, { input = { 3, 5 } })
net
]]

-- Topics whose text is written for people and holds no number of a line.
local TOPICS = { '', '%', '%time', '%bench', '%prof', '%trace', '%who', '%mem', '%run', '%reload',
  '%save', '%edit', '%history', '%set', '%seed', '%device', '%sql', '%plot', '%tb', '%debug',
  '%zork', '%benhc', 'zork', 'ridge.zork', 'ridge.nn.Liner', 'ridge.zeroes', 'Tensor:summ',
  'ridge.near', 'ridge.near.names', 'ridge.top', 'Tensor:sum', 'ridge.zeros', 'ridge.nn.ReLU',
  'x', 't', 'f', 'text', '"softmax"', '"no such words"', 'for', 'math.floor', 'print', 'names' }

-- What TAB is pressed behind, and what stands behind the cursor.
local TABS = { { '' }, { '  ' }, { 'rid' }, { 'ridge.nn.Li' }, { 'ridge.nn.L' }, { 'ridge.zer' },
  { 'ridge.nn.zork' }, { 'prin' }, { 'print', '(' }, { 'loc' }, { 'whi' }, { 'value_' },
  { 'value_one.' }, { 'value_one.al' }, { 'value_one:' }, { 'some_text:' }, { 'some_text:up' },
  { '("x"):re' }, { 'x:s' }, { 'x:softm' }, { 'x.' }, { '%b' }, { '%' },
  { '%time prin' }, { '-- rid' }, { 'ridge.nn.Linear(2, 3, { ' }, { 'ridge.nn.Linear(2, 3, { bi' },
  { 'ridge.nn.Linear(2, 3, { bias = true, ' },
  { 'x:to("' }, { "x:to 'b" }, { 'ridge.zeros(2, { dtype = "' }, { '1..x' }, { 'f(x).y' },
  { 'ridge.optim.' }, { 'math.' }, { 'sumary' }, { 'rdige' }, { 'ridge.nn.Linaer' } }

-- No editor is opened: the text stays as it is.
local ffi = require 'ffi'
ffi.cdef 'int setenv(const char *, const char *, int);'
ffi.C.setenv('VISUAL', 'true', 1)

describe('the prompt answers', function()
  local folder, before

  local function put(name, text)
    local file = assert(io.open(folder .. '/' .. name, 'w'))
    file:write(text)
    file:close()
  end

  setup(function()
    folder = folders.new()
    put('file.lua', 'local inside = #arg\nfrom_file = { arg[0]:match "[^/]*$", arg[1], inside }\n')
    put('edited.lua', 'edited = 21\n')
    put('wrong.lua', 'local x = 1\nerror "in the file"\n')
    put('beside.lua', 'return { n = 1 }')
    put('source.lua', '-- Above it.\n-- Twice.\nreturn function(x)\n  return x + 1\nend\n')
    dofile('tests/lua/cli/fixed_rows.lua').make(folder .. '/s.db')
    before = package.path
    package.path = folder .. '/?.lua;' .. before
  end)
  teardown(function()
    package.path = before
    folders.remove(folder)
  end)

  -- What is printed while a function runs, on all ways.
  local function printed(parts, f)
    local path = folder .. '/printed'
    local file, stdout, print_before = assert(io.open(path, 'w')), io.stdout, _G.print
    io.stdout = file -- luacheck: ignore 122
    rawset(_G, 'print', function(...)
      local words = {}
      for i = 1, select('#', ...) do words[i] = tostring((select(i, ...))) end
      parts[#parts + 1] = table.concat(words, '\t') .. '\n'
    end)
    local ok, err = pcall(f)
    rawset(_G, 'print', print_before)
    io.stdout = stdout -- luacheck: ignore 122
    file:close()
    for line in io.lines(path) do parts[#parts + 1] = line .. '\n' end
    if not ok then error(err, 0) end
  end

  -- What lies below the prompt is this file and busted; lines of the sources move with every edit.
  local MASKS = {
    { '\n   at tests/lua/repl/approved_spec%.lua:%d+[^\n]*', '' },
    { 'tests/lua/repl/approved_spec%.lua:%d+  [^\n]*\n', 'BELOW\n' },
    { '\ttests/lua/repl/approved_spec%.lua.-%[C%]: at 0x%x+', '\tBELOW' },
    { '(ridge/[%w_/]+%.lua):%d+', '%1:LINE' }, { '/tmp/lua_%w+', 'TEMPORARY' },
  }

  local function masked(text)
    return approved.masked(text:gsub(folder:gsub('%p', '%%%0'), 'FOLDER'), MASKS)
  end

  for name, typed in pairs(GROUPS) do
    it('to lines of: ' .. name, function()
      local parts = {}
      local path = history.path
      -- what every machine has: tables are as wide as these words
      local backend = require 'ridge.backend'
      local settings = backend.now()
      backend.apply { isa = 'base', threads = 1, gemm = 'auto' }
      history.path = function() return folder .. '/history' end -- luacheck: ignore 122
      os.execute(('rm -f %s/saved.lua %s/last.lua'):format(folder, folder))
      local s = session.new { write = function(piece) parts[#parts + 1] = piece end }
      for line in typed:gmatch '([^\n]+)\n' do
        parts[#parts + 1] = '>> ' .. line .. '\n'
        local outcome
        printed(parts, function() outcome = s:run((line:gsub('FOLDER', folder))) end)
        if outcome ~= 'done' then parts[#parts + 1] = ('[%s]\n'):format(outcome) end
      end
      history.path = path -- luacheck: ignore 122
      local text = table.concat(parts)
      -- of this machine: what is computed on, and with what
      text = text:gsub('(>> %%mem[^\n]*\n)([^>]*)', function(head, said) -- bytes of this machine
        return head .. said:gsub('%d[%d.]*', 'N'):gsub('N [KMGT]?B', 'N B'):gsub(' +', ' ')
      end)
      backend.apply(settings)
      approved.check('repl/' .. name, masked(text))
    end)
  end

  it('to questions', function()
    local parts = {}
    local env = { x = require('ridge').zeros(2), t = { 1 }, f = function() end, text = 'words' }
    for _, topic in ipairs(TOPICS) do
      local text, reason = help.lookup(topic, env)
      parts[#parts + 1] = ('?%s\n%s\n'):format(topic, text or 'none: ' .. reason)
    end
    -- places move with every edit of a file
    approved.check('repl/help', masked(table.concat(parts, '\n'):gsub('(%.lua):%d+', '%1:LINE')))
  end)

  it('to questions about sources', function()
    local parts, source = {}, require 'ridge.repl.source'
    local env = { f = dofile(folder .. '/source.lua'), x = 3, class = { init = help.lookup } }
    env.class.init = env.f
    for _, topic in ipairs { 'f', 'class', 'x', 'print', 'zork', 'math.floor', 'ridge.near.hint',
        'ridge.nn.Liner', 'Tensor:zork' } do
      local text, reason = source.lookup(topic, env)
      parts[#parts + 1] = ('??%s\n%s\n'):format(topic, text or 'none: ' .. tostring(reason))
    end
    approved.check('repl/source', masked(table.concat(parts, '\n')))
  end)

  it('to %bench, of a result that is made up', function()
    local measure, calibrated = require 'ridge.measure', require 'ridge.sweep.calibrated'
    local fresh, backend = require 'ridge.repl.fresh', require 'ridge.backend'
    local parts, asked, stored, ceilings, between = {}, nil, nil, nil, nil
    local result
    local function made(text, protocol)
      asked = ('[%s %s %s]\n'):format(text, protocol.level or '-', protocol.cache or '-')
      local copy = {}
      for key, value in pairs(result) do copy[key] = value end
      return copy
    end
    local true_ones = { measure.block, measure.calibrate, calibrated.stored, fresh.result,
      measure.calibration }
    measure.block = function(points, protocol) return { made(points[1].label, protocol) } end
    measure.calibrate = function() return ceilings end
    measure.calibration = function() return between end
    calibrated.stored = function() return stored end
    fresh.result = function(text, protocol) return made('fresh ' .. text, protocol) end
    local s = session.new { write = function(piece) parts[#parts + 1] = piece end }
    local function type_in(line)
      asked = ''
      parts[#parts + 1] = '>> ' .. line .. '\n'
      s:run(line)
      parts[#parts + 1] = asked
    end
    local function ceiling(name, value) return { name = name, value = value, threads = 1 } end
    backend.set_threads(1)
    s:run 'x, y = ridge.ones(4, 4), ridge.ones(4, 4)'
    s:run 'p = ridge.capture(x.relu, x) f = function() return x end'
    result = { med = 2000, ci_lo = 1900, ci_hi = 2100, p25 = 1950, p75 = 2050, n = 30,
      first_ns = 1.5e6, grade = 'A', flags = {}, procs = 5, promises = 'good to 5 %' }
    ceilings = { ceiling('fma.f32', 1e9), ceiling('bw.l1', 1e9) }
    type_in '%bench x:matmul(y)'
    type_in '%bench --quick --cold x:matmul(y)'
    type_in '%bench ridge.ones(4, 4):relu()'
    result.flags, result.grade, result.promises = { 'MODES', 'LUA' }, 'C', nil
    type_in '%bench --rigorous p'
    type_in '%bench f'
    type_in '%bench --eager x + y'
    type_in '%bench --eager p'
    type_in '%bench 1 + 1'
    type_in '%bench x:relu():exp():log():neg():abs()'
    type_in '%bench z = x:relu()'
    type_in '%bench zork()'
    type_in '%bench )'
    result.med = 1 -- above every roof, after a second look too
    type_in '%bench x:matmul(y)'
    s.ceilings, stored = nil, { ceiling('fma.f32', 1e13), ceiling('bw.l1', 1e13) }
    type_in '%bench x:matmul(y)'
    backend.set_threads(2)
    stored, ceilings = nil, {}
    type_in '%bench x:matmul(y)'
    backend.set_threads(0)
    measure.block, measure.calibrate, calibrated.stored, fresh.result, measure.calibration =
      unpack(true_ones)
    approved.check('repl/bench', masked(table.concat(parts)))
  end)

  it('to TAB', function()
    local parts = {}
    local env = { x = require('ridge').zeros(2), value_one = { alpha = 1, album = 2, _hidden = 3 },
      value_two = 2, some_text = 'x' }
    for _, tab in ipairs(TABS) do
      local insert, list = complete.tab(tab[1], tab[2] or '', env)
      parts[#parts + 1] = ('%s|%s\ninserts "%s"%s\n'):format(tab[1], tab[2] or '', insert,
        list and '\n' .. list or '')
    end
    approved.check('repl/tab', masked(table.concat(parts, '\n')))
  end)
end)
