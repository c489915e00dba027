-- SPDX-License-Identifier: MIT
-- ridge best, top --disturbed and retry --grade, as typed: over a sweep whose stored times are set
-- by hand.

local folders = dofile 'tests/lua/store/folder.lua'
local retry = require 'ridge.cli.retry'
local sqlite = require 'ridge.store.sqlite'

local RECIPE = [[
local ridge = require 'ridge'
ridge.sweep 'sizes' {
  protocol = 'quick', space = { n = { 8, 16, 24, 32 } },
  setup = function(p) return ridge.ones(p.n) end,
  measure = function(p, x, m)
    m:time('fwd', ridge.capture(function() return x + 1 end))
    m:metric('side', p.n, { better = 'higher' })
  end,
}:run { calibrate = false, progress = 'off' }
]]

-- Median and interval of the points, in the order of n.
local TIMES = { { 80, 79, 81 }, { 70, 65, 78 }, { 75, 71, 79 }, { 320, 300, 340 } }

describe('the best of a sweep', function()
  local folder, db

  local function ridge(words, to)
    return folders.run(('RIDGE_DB=%s ./ridge %s %s'):format(db, words, to or ''))
  end

  local function write(...)
    local st = sqlite.open(db, 'write')
    for _, sql in ipairs { ... } do st:exec(sql) end
    st:close()
  end

  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    local file = io.open(folder .. '/sizes.lua', 'w')
    file:write(RECIPE)
    file:close()
    ridge(folder .. '/sizes.lua')
    for i, t in ipairs(TIMES) do
      write(([[UPDATE timing SET med = %g, ci_lo = %g, ci_hi = %g, pass_med = NULL,
        sd_minutes = NULL, quiet = NULL
        WHERE cache <> 'first' AND attempt_id = (SELECT best_attempt FROM trial
        JOIN param p ON p.config_id = trial.config_id WHERE p.name = 'n' AND p.num = %d)]]):format(
        t[1], t[2], t[3], 8 * i))
    end
    write("UPDATE timing SET pass_med = NULL", "UPDATE attempt SET grade = 'B', flags = ''")
  end)
  teardown(function() folders.remove(folder) end)

  -- Trials have numbers in the sweep's own order.
  local function plainly(text) return (text:gsub('\n *%d+  ', '\n#  '):gsub('^ *%d+  ', '#  ')) end

  it('is printed as a set, with what matters and what would decide', function()
    local text, status = ridge "best sizes --for fwd"
    assert.equal(0, status)
    assert.equal([[
least fwd: 2 of 4 points cannot be told apart, 70 ns to 75 ns
trial   n  fwd [ns]  lo [ns]  hi [ns]  to the first  limit  of roof  grade
#  16        70       65       78                                B
#  24        75       71       79                                B
what matters, between medians over all others: n x4.57 (best 16)
no roofs: the machine was not calibrated (ridge calibrate)
to decide: ridge best sizes --for 'min fwd' --settle 5m
]], plainly(text))
    -- what is not rows goes to standard error where a program reads
    text = ridge "best sizes --for 'max n / fwd' --where 'fwd < 100ns' --as csv 2>/dev/null"
    assert.matches('^trial,n,n / fwd,lo,hi,to the first,limit,of roof,grade\n%d+,24,0.32,[^\n]+\n$',
      text)
    text = ridge "best sizes --for side"
    assert.matches('^most side: one point of 4 is the best\n', text)
    assert.is_nil(text:find 'to decide')
  end)

  it('is told where no point fulfils the condition, and asked of the database it was', function()
    local text, status = ridge "best sizes --for fwd --where 'n > 100'"
    assert.equal(0, status)
    assert.matches('^no measured point of sizes has fwd where n > 100\n', text)
    text = folders.run(("./ridge best sizes --for fwd --db '%s'"):format(db))
    local next_step = "\nto decide: ridge best sizes --for 'min fwd' --settle 5m --db '%s'\n"
    assert.is_truthy(text:find(next_step:format(db), 1, true), text)
  end)

  it('is the same as a call', function()
    local text, status = ridge "-e \"ridge.best('sizes', { ['for'] = 'fwd', n = 1 })\""
    assert.equal(0, status)
    assert.matches('^least fwd: 2 of 4 points cannot be told apart', text)
    assert.matches('\n1 more of the set: %-n 2 shows all\n', text)
  end)

  it('says what is wrong', function()
    for words, message in pairs {
      best = 'a sweep is missing; ridge sweeps lists them',
      ['best zork'] = 'zork',
      ['best sizes'] = "--for 'max NAME' or 'min NAME' is missing; the sweep sizes has fwd, side",
      ["best sizes --for fwd --where 'm > 3'"] = 'the sweep sizes has no m',
      ["best sizes --for side --settle 1s"] = '--settle times phases, and side is none',
      ["best sizes --for fwd --settle soon"] = "--settle: 'soon' is no duration",
      ['retry sizes --when-quiet soon'] = "--when-quiet: 'soon' is no duration",
      ["best sizes --for fwd --where 'fwd < 1 ms'"] = "'ms' is too much; units of time stand right",
      ["best sizes --for fwd --where 'fwd < 1µs'"] = "'µ' is not understood; microseconds are us",
    } do
      local text, status = ridge(words, '2>&1')
      assert.same({ words, 1 }, { words, status })
      assert.is_truthy(text:find(message, 1, true), text)
    end
  end)

  it('is of a stored sweep with the same arguments, whatever -P made of its values', function()
    local origins = require 'ridge.cli.origin'
    local sw = setmetatable({ spec = { args = { n = 1 }, device = 'sim:0' },
      plan = { text = '[1,2,3]' } }, getmetatable(require 'ridge.sweep'.sweep 's' {
      space = { n = { 1 } }, measure = print }))
    local stored = { source = '', args = '{"device":"sim:0","n":1}', space = '[1]' }
    assert.is_true(origins.agrees(sw, stored, true))
    local same, why = origins.agrees(sw, stored)
    assert.is_nil(same)
    assert.matches('has other values than its recipe, as from %-P', why)
    stored.args = '{"n":1}'
    same, why = origins.agrees(sw, stored, true)
    assert.is_nil(same)
    assert.matches('other arguments %({"n":1}, now {"device":"sim:0","n":1}%)', why)
  end)

  it('is settled by pairs in fresh processes', function()
    local text, status = ridge("best sizes --for fwd --where 'n < 20' --settle 5s", '2>&1')
    assert.equal(0, status)
    -- 8 stays out of the set by its interval: one point alone needs no pair
    assert.matches('least fwd: one point of 2 is the best', text)
    write 'UPDATE timing SET ci_lo = 60 WHERE med = 80'
    text, status = ridge("best sizes --for fwd --where 'n < 20' --settle 1s", '2>&1')
    write 'UPDATE timing SET ci_lo = 79 WHERE med = 80'
    assert.equal(0, status)
    assert.matches('1 pair timed side by side, [01] told apart\n', text)
    assert.is_nil(text:find 'to decide')
  end)

  it('is settled where -P gave other values than the recipe has', function()
    local file = io.open(folder .. '/others.lua', 'w')
    file:write((RECIPE:gsub("'sizes'", "'others'"):gsub('\nridge.sweep', '\nreturn ridge.sweep')
      :gsub(':run %b{}', '')))
    file:close()
    local text, status = ridge(('sweep %s/others.lua -P n=8,16 --no-calibrate'):format(folder),
      '2>&1')
    assert.equal(0, status, text)
    write [[UPDATE timing SET med = 70, ci_lo = 60, ci_hi = 80, pass_med = NULL, quiet = NULL
      WHERE cache <> 'first' AND attempt_id IN (SELECT best_attempt FROM trial WHERE sweep_id =
        (SELECT id FROM sweep WHERE name = 'others'))]]
    write "UPDATE attempt SET grade = 'B', flags = ''"
    text, status = ridge("best others --for fwd --settle 1s", '2>&1')
    assert.equal(0, status, text)
    assert.matches('1 pair timed side by side, [01] told apart\n', text)
  end)

  it('leaves disturbed points out, and shows and takes them back when asked', function()
    local before = sqlite.open(db, 'write')
    before:exec [[UPDATE attempt SET grade = 'D'
      WHERE id IN (SELECT attempt_id FROM timing WHERE med = 70)]]
    before:close()
    local text = ridge 'best sizes --for fwd'
    assert.matches('^least fwd: 2 of 3 points cannot be told apart, 75 ns to 80 ns\n', text)
    assert.matches('\n1 point of grade D left out\n', text)
    -- among the others 24 is best, and 320 over 75 is 4.27
    assert.matches('what matters, [^\n]*: n x4.27 %(best 24%)\n', text)
    text = ridge(("best sizes --for fwd --where 'n = 16' --db %s"):format(db))
    assert.matches('^the only point of sizes is of grade D', text)
    assert.is_truthy(text:find(("\non a quiet machine: ridge retry sizes --grade D --db '%s', then")
      :format(db), 1, true))
    text = ridge('top sizes --by fwd', '2>/dev/null')
    assert.is_nil(text:find 'disturbed')
    assert.matches('^trial[^\n]+\n *%d+ +24 [^\n]* undecided\n', text)
    text = ridge('top sizes --by fwd --disturbed', '2>/dev/null')
    assert.matches('^trial[^\n]+\n *%d+ +16 [^\n]* D +disturbed\n *%d+ +24 [^\n]* undecided\n',
      text)
    text = ridge 'retry sizes --grade A --grade C'
    assert.equal('0 points of sizes will be tried again\n', text)
    text = ridge 'retry sizes --grade D'
    assert.equal('1 point of sizes will be tried again\n', text)
    -- its passes begin anew: the old ones were what was disturbed
    text = ridge "query sizes 'state, passes' --where 'n = 16' --as csv"
    assert.equal('state,passes\npending,0\n', text)
    ridge(folder .. '/sizes.lua')
    text = ridge "query sizes 'n, state, fwd' --where 'n = 16' --as csv"
    -- measured anew, in passes of its own
    assert.matches('\n16,ok,[%d.]+\n$', text)
    assert.is_nil(text:find ',70\n')
    write "UPDATE attempt SET grade = 'D'"
    text = ridge 'best sizes --for fwd'
    assert.matches('^all 4 points of sizes are of grade D, disturbed: none of them is decided\n',
      text)
    assert.matches('\non a quiet machine: ridge retry sizes %-%-grade D, then the sweep again\n$',
      text)
  end)

  it('waits for a quiet machine, and says when it never was', function()
    local at, busy_until, pauses = 0, 0, 0
    local services = { now = function() return at end,
      counters = function()
        return { at_ns = at, busy_ns = math.min(at, busy_until), own_ns = 0, steal_ns = 0,
          pressure_ns = 0, n_throttled = 0, n_cpus = 2 }
      end,
      check = function() end,
      pause = function(_, ns) at, pauses = at + ns, pauses + 1 end }
    assert.is_true(retry.wait(services, 10))
    assert.is_true(at < 5e9)
    at, busy_until, pauses = 0, 30e9, 0
    assert.is_true(retry.wait(services, 60))
    assert.is_true(at > 30e9 and at < 40e9 and pauses > 4)
    at, busy_until = 0, 1e12
    assert.is_false(retry.wait(services, 20))
    assert.is_true(at >= 20e9 and at < 26e9)
    local text, status = ridge('retry sizes --when-quiet soon', '2>&1')
    assert.equal(1, status)
    assert.matches("'soon' is no duration", text)
  end)
end)
