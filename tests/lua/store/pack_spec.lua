-- SPDX-License-Identifier: MIT
-- Sweeps by columns: that they say what their rows say, for any question, and are let go as soon as
-- a row changes; what is damaged in them; that they are no part of what is published.
local folders = dofile 'tests/lua/store/folder.lua'
local best = require 'ridge.sweep.best'
local columns_of = require 'ridge.store.columns'
local expression = require 'ridge.store.expression'
local ffi = require 'ffi'
local front = require 'ridge.sweep.front'
local pack = require 'ridge.store.pack'
local publish = require 'ridge.store.publish'
local query = require 'ridge.store.query'
local results = require 'ridge.store.results'
local schema = require 'ridge.store.schema'
local sources = require 'ridge.report.source'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'
local sweeps = require 'ridge.store.sweeps'

local POINTS = 5200 -- two types, fifty batches, a hundred widths, and some of a third

-- What rows of a real sweep may have: no interval, ends below zero, passes that are missing, a
-- metric that is nan or absent, a parameter that is true or false, or of two kinds.
local CHANGES = [[
  UPDATE timing SET ci_lo = NULL, ci_hi = NULL WHERE attempt_id % 97 < 5 AND cache = 'warm';
  UPDATE timing SET ci_lo = -ci_lo WHERE attempt_id % 89 < 5 AND cache = 'warm';
  UPDATE timing SET ci_hi = ci_hi * 4 WHERE attempt_id % 13 < 5 AND cache = 'warm';
  UPDATE timing SET pass_med = pass_med * (0.5 + (attempt_id * 37 % 101) / 100.0)
    WHERE cache = 'warm' AND attempt_id / 5 % 3 = 0;
  UPDATE timing SET pass_med = NULL WHERE cache = 'warm' AND attempt_id % 7 = 3
    AND attempt_id / 5 % 4 = 1;
  UPDATE metric SET value = NULL WHERE name = 'fwd_bytes' AND attempt_id % 11 < 4;
  INSERT INTO metric SELECT attempt_id, 'loss', CASE WHEN attempt_id % 15 > 4 THEN value / 1e6 END,
    NULL, -1, CASE WHEN attempt_id % 15 <= 4 THEN 'nan' END FROM metric WHERE name = 'rows_per_s';
  INSERT INTO metric SELECT attempt_id, 'score', value / 1e6 - 3, NULL, 1, NULL FROM metric
    WHERE name = 'rows_per_s' AND attempt_id % 4 > 0;
  UPDATE config SET params = json_set(params, '$.fused', json(CASE id % 2 WHEN 0 THEN 'true'
    ELSE 'false' END), '$.odd', CASE WHEN id % 3 = 0 THEN 'x' ELSE id % 3 END);
  INSERT INTO param SELECT id, 'fused', 1 - id % 2, NULL FROM config;
  INSERT INTO param SELECT id, 'odd', CASE WHEN id % 3 > 0 THEN id % 3 END,
    CASE WHEN id % 3 = 0 THEN 'x' END FROM config;
  UPDATE trial SET state = 'pending' WHERE id % 501 = 7;
]]

local QUESTIONS = {
  { 'min fwd' }, { 'max fwd' }, { 'max batch / fwd' }, { 'min -(fwd * 2) + width' },
  { 'max rows_per_s' }, { 'max score' }, { 'min score' }, { 'max fwd_bytes / fwd_flops' },
  { 'min abs(fwd - 5000)' }, { 'max log2(fwd) * batch' }, { 'min fwd ^ 2' },
  { 'max min(fwd, 4000)' }, { 'max fwd / (batch - 1)' },
  { 'min fwd', "dtype = 'f16'" }, { 'min fwd', "dtype ~= 'f16' and not (width < 900)" },
  { 'max batch / fwd', 'fwd < 1000 or width = 3200' }, { 'min fwd', "grade = 'D'" },
  { 'min fwd', "state = 'oom' or fwd > 2000" }, { 'max fwd', 'fused' }, { 'min fwd', 'fused = 1' },
  { 'min fwd', "odd = 'x' and fwd > 0" }, { 'min fwd', 'odd ~= 1' }, { 'max score', 'score ~= 1' },
  { 'max score', 'not score' }, { 'min fwd', 'fwd_lo > 300 and width ~= 64' },
  { 'min fwd', 'rank = 7' }, { 'min fwd', "dtype = 'none'" },
}

describe('a packed sweep', function()
  local folder, path

  setup(function()
    folder = folders.new()
    path = folder .. '/made.db'
    local status = os.execute(('RIDGE_LUA=lua ./ridge scripts/made_points.lua --db %s --points %d '
      .. '>/dev/null'):format(path, POINTS))
    assert.equal(0, status)
    store.with(path, 'write', function(st)
      st:within(function() st.db:exec(CHANGES, 'changes') end)
    end)
  end)
  teardown(function() folders.remove(folder) end)

  local function copied(name)
    local to = folder .. '/' .. name
    store.with(path, 'read', function(st) st.db:copy(to) end)
    return to
  end

  -- As it is written down, so that numbers have to be the same in all digits.
  local function told(found, effects)
    local lines = { ('%d %d %d %d %d %s'):format(found.n, found.behind, found.without, found.open,
      found.left_out, tostring(found.disturbed)) }
    for i, each in ipairs(found.set) do
      if i > front.SHOWN then break end
      lines[#lines + 1] = ('%d %.17g %s %s %s %s'):format(each.row.trial, each.v,
        tostring(each.lo), tostring(each.hi), tostring(each.pair and each.pair.lo),
        tostring(each.pair and each.pair.hi))
    end
    lines[#lines + 1] = found.last and ('%d %.17g'):format(found.last.row.trial, found.last.v)
    for _, effect in ipairs(effects) do
      lines[#lines + 1] = ('%s %.17g %s'):format(effect.name, effect.reach, tostring(effect.best))
    end
    return table.concat(lines, '\n')
  end

  -- Every question, or one of some.
  local function ask_all(st, sweep, one_of)
    local rows = results.rows(st, sweep.id)
    local columns = columns_of.of(st, sweep)
    local directions, params = results.directions(st, sweep.id), results.params(st, sweep.id)
    local answered = 0
    for i = 1, #QUESTIONS, one_of or 1 do
      local question = QUESTIONS[i]
      local condition = question[2] and expression.parse(question[2])
      local goal = best.goal(question[1], directions, rows, 'it')
      local known, own = true, rows
      if condition then known, own = pcall(best.where, rows, condition, 'it') end
      if not known then -- a column that nothing is in: the rows say which there are
        assert.is_false(front.answers(columns, goal.tree, condition))
        goto next
      end
      local by_rows = told(best.set(own, goal), best.effects(own, goal, params))
      local same = best.goal(question[1], directions, columns, 'it')
      assert.same({ goal.better, goal.measured, goal.is_plain }, { same.better, same.measured,
        same.is_plain })
      assert.is_true(front.answers(columns, same.tree, condition), question[1])
      local found, data = front.set(columns, same, condition)
      assert.equal(by_rows, told(found, front.effects(columns, same, params, data)),
        question[1] .. ' ' .. (question[2] or ''))
      answered = answered + 1
      ::next::
    end
    return answered
  end

  it('says what its rows say', function()
    local to = copied 'same.db'
    store.with(to, 'write', function(st)
      local sweep = query.sweep(st, 'made')
      assert.is_nil(columns_of.of(st, sweep))
      assert.same({ { name = 'made', points = POINTS } }, pack.update(st, 1))
      assert.same({}, pack.update(st, 1))
      assert.equal(#QUESTIONS, ask_all(st, sweep))
      -- a metric that is nan somewhere is asked of the rows
      assert.is_false(front.answers(columns_of.of(st, sweep), expression.parse 'loss'))
      assert.is_false(front.answers(columns_of.of(st, sweep), expression.parse 'fwd_p95'))
    end)
  end)

  it('says so, too, where all points are disturbed, and where none has an interval', function()
    for name, change in pairs { disturbed = "UPDATE attempt SET grade = 'D'",
        bare = "UPDATE timing SET ci_lo = NULL, ci_hi = NULL, pass_med = NULL" } do
      store.with(copied(name .. '.db'), 'write', function(st)
        st:within(function() st.db:exec(change, name) end)
        pack.update(st, 1)
        ask_all(st, query.sweep(st, 'made'), 4)
      end)
    end
  end)

  it('has the rows, the counts and the failures that a page shows', function()
    store.with(copied 'page.db', 'write', function(st)
      local sweep, seen = query.sweep(st, 'made'), {}
      local answer = require 'ridge.report.answer'
      local list = sweeps.list(st).lines
      schema.views(st.db)
      local view = query.columns(st, 'made')
      for turn = 1, 2 do
        if turn == 2 then pack.update(st, 1) end
        local source = sources.of(st, sweep, 'min fwd')
        assert.equal(turn == 2, source:drawn('map', {}) ~= nil)
        -- upwards unless more was said to be better; 0: nobody said
        for better = -1, 1 do
          local times = {}
          for _, row in ipairs(source:first({ goal = { better = better, is_plain = true } }, 'fwd',
            30)) do
            if type(row.fwd) == 'number' and row.fwd == row.fwd then times[#times + 1] = row.fwd end
          end
          assert.is_true(#times > 2 and times[1] ~= times[#times])
          for i = 2, #times do
            assert.is_true(times[i] == times[i - 1] or (times[i] < times[i - 1]) == (better == 1))
          end
        end
        local said = answer.of(st, sweep, source, 'min fwd')
        local lines = { table.concat(said.sentences, ' ') }
        for _, row in ipairs(source:first(said, 'fwd', 300)) do
          lines[#lines + 1] = ('%d %s %s %s'):format(row.trial, tostring(row.fwd), row.dtype,
            tostring(row.fused))
        end
        for _, row in ipairs(source:failed({ oom = true, error = true }, 9)) do
          lines[#lines + 1] = ('%d %s %s %s'):format(row.trial, row.state, row.reason, row.dtype)
        end
        for _, counts in ipairs { source:counts() } do
          local names = {}
          for name, n in pairs(counts) do names[#names + 1] = name .. '=' .. n end
          table.sort(names)
          lines[#lines + 1] = table.concat(names, ' ')
        end
        local all = source:counts()
        seen[turn] = table.concat(lines, '\n')
        assert.is_true(all.ok > 4000 and all.oom > 0)
      end
      assert.equal(seen[1], seen[2])
      assert.same(list, sweeps.list(st).lines)
      schema.views(st.db)
      assert.same(view, query.columns(st, 'made'))
    end)
  end)

  it('draws what is like the best in all but two parameters, and says so', function()
    local most = sources.DRAWN
    sources.DRAWN = 150
    local ok, err = pcall(store.with, copied 'drawn.db', 'write', function(st)
      pack.update(st, 1)
      local sweep = query.sweep(st, 'made')
      local source = sources.of(st, sweep, 'min fwd')
      local said = require('ridge.report.answer').of(st, sweep, source, 'min fwd')
      local rows, words = source:drawn('map', said)
      assert.truthy(words:find('^150 of 5200 points: .*dtype=bf16.*, of these drawn at random$'))
      local first, seen = said.found.set[1].row, {}
      for _, row in ipairs(rows) do
        assert.equal(first.dtype, row.dtype)
        assert.is_nil(seen[row.trial])
        seen[row.trial] = true
      end
      assert.equal(150, #rows)
      rows, words = source:drawn('roofline', said)
      assert.equal('1000 of 5200 points: drawn at random', words)
      assert.equal(1000, #rows)
      -- of all points: a map needs a best one, and two parameters of numbers
      for name, less in pairs { ['no best'] = { effects = said.effects },
          ['one number'] = { found = said.found, effects = { { name = 'batch' } } },
          words = { found = said.found, effects = { { name = 'dtype' }, { name = 'batch' } } } } do
        rows, words = sources.of(st, sweep, 'min fwd'):drawn('map', less)
        assert.equal('1000 of 5200 points: drawn at random', words, name)
        assert.equal(1000, #rows, name)
      end
    end)
    sources.DRAWN = most
    if not ok then error(err, 0) end
  end)

  it('is let go as soon as a row changes, whoever changes it', function()
    local to = copied 'stale.db'
    for _, change in ipairs { "UPDATE trial SET state = 'pending' WHERE id = 9",
        "UPDATE attempt SET grade = 'C' WHERE id = 45", 'UPDATE timing SET med = 1 WHERE id = 7',
        'DELETE FROM metric WHERE attempt_id = 45', 'DELETE FROM timing WHERE id = 8',
        "INSERT INTO metric VALUES(50, 'new', 1, NULL, 1, NULL)",
        "INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med) "
          .. "VALUES(50, 'bwd', 'c', 'warm', 1, 1, 1)",
        'UPDATE metric SET value = 0 WHERE attempt_id = 50',
        "INSERT INTO trial(uuid, sweep_id, config_id, rep, ord) VALUES(x'00', 1, 1, 5, 1)",
        "DELETE FROM trial WHERE uuid = x'00'" } do
      store.with(to, 'write', function(st)
        pack.update(st, 1)
        assert.truthy(pack.head(st, 1), change)
      end)
      local plain = sqlite.open(to, 'write') -- knows nothing of packs
      plain:transaction(function() plain:exec(change, change) end)
      plain:close()
      store.with(to, 'read', function(st) assert.is_nil(pack.head(st, 1), change) end)
    end
  end)

  it('is data: what is damaged in it is said, or not taken', function()
    local to = copied 'damaged.db'
    local function with(change, f)
      store.with(to, 'write', function(st)
        st:within(function() st.db:exec 'DELETE FROM sweep_pack' end)
      end)
      store.with(to, 'write', function(st)
        pack.update(st, 1)
        st:within(function() st.db:exec(change, 'damage') end)
        f(st, query.sweep(st, 'made'))
      end)
    end
    store.with(to, 'write', function(st) pack.update(st, 1) end)
    local function set(st, sweep)
      local columns = columns_of.of(st, sweep)
      return front.set(columns, best.goal('min fwd', results.directions(st, 1), columns, 'it'))
    end
    with("UPDATE sweep_column SET data = substr(data, 9) WHERE name = 'fwd'", function(st, sweep)
      local ok, err = pcall(set, st, sweep)
      assert.is_false(ok)
      assert.truthy(err.message:find 'the pack of a sweep is damaged %(column fwd%)')
    end)
    for _, head in ipairs { '[]', '{}', '7', '{"format":1,"n":5200}', '"x"' } do
      with(("UPDATE sweep_pack SET head = '%s'"):format(head), function(st)
        assert.is_nil(pack.head(st, 1), head)
      end)
    end
    for _, change in ipairs { "'$.phases.fwd.passes', 1e9", "'$.params.rank[0]', json('[]')",
        "'$.n', -1", "'$.names.cold', 7", "'$.counts.states', 'x'", "'$.first', 1" } do
      with(('UPDATE sweep_pack SET head = json_set(head, %s)'):format(change), function(st)
        assert.is_nil(pack.head(st, 1), change)
      end)
    end
    with('UPDATE sweep_pack SET points = 3', function(st) assert.is_nil(pack.head(st, 1)) end)
    -- bits that LuaJIT would take for a pointer; codes that no word has
    local bits = ffi.new('uint32_t[2]', 0x1234, 0xfffb0000)
    with(("UPDATE sweep_column SET data = CAST(x'%s' || substr(data, 9) AS BLOB) WHERE name = "
        .. "'fwd'; UPDATE sweep_column SET data = CAST(x'ffffff7f' || substr(data, 5) AS BLOB) "
        .. "WHERE name IN ('dtype', 'state')"):format((ffi.string(bits, 8):gsub('.', function(c)
          return ('%02x'):format(c:byte())
        end))), function(st, sweep)
      local columns = columns_of.of(st, sweep)
      local v = columns:stored 'fwd'[0]
      assert.is_true(v ~= v and type(v) == 'number')
      assert.is_nil(columns:value('dtype', 0))
      assert.is_nil(columns:row(0).fwd)
      set(st, sweep)
    end)
  end)

  it('is made where a run ends, of sweeps with many points', function()
    local least, ridge = pack.LEAST, require 'ridge'
    pack.LEAST = 4
    local ok, err = pcall(function()
      for name, n in pairs { few = 3, many = 5 } do
        ridge.sweep(name) { space = { k = ridge.range(1, n) },
          measure = function(p, _, m) m:metric('score', p.k, { better = 'higher' }) end,
        }:run { db = folder .. '/run.db', calibrate = false, progress = 'off' }
      end
      store.with(folder .. '/run.db', 'read', function(st)
        assert.is_nil(columns_of.of(st, query.sweep(st, 'few')))
        assert.equal(5, columns_of.of(st, query.sweep(st, 'many')).n)
      end)
    end)
    pack.LEAST = least
    if not ok then error(err, 0) end
  end)

  it('is no part of what is published', function()
    local to = copied 'own.db'
    store.with(to, 'write', function(st) pack.update(st, 1) end)
    for _, anonymous in ipairs { false, true } do
      local out = ('%s/out-%s.db'):format(folder, tostring(anonymous))
      store.with(to, 'read', function(st) publish.write(st, out, anonymous) end)
      local db = sqlite.open(out, 'read')
      assert.equal(0, db:value "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sweep_%'")
      assert.equal(POINTS, db:value 'SELECT count(*) FROM made')
      db:close()
    end
  end)
end)

describe('numbers of points by their values', function()
  it('are in their order, those of one value as they came', function()
    local seeded, n = 12345, 3000
    local data = ffi.new('double[?]', n)
    for i = 0, n - 1 do
      seeded = seeded * 16807 % 2147483647
      local u = seeded / 2147483647
      data[i] = i % 5 == 0 and math.floor(u * 9) - 4 or (u - 0.5) * 10 ^ (seeded % 600 - 300)
    end
    data[1], data[2], data[3] = 5e-324, -5e-324, 1.7e308
    for _, falling in ipairs { false, true } do
      local list, want = ffi.new('int32_t[?]', n), {}
      for i = 0, n - 1 do list[i], want[i + 1] = i, i end
      table.sort(want, function(a, b)
        local x, y = data[a], data[b]
        if x ~= y then return falling and x > y or not falling and x < y end
        return a < b
      end)
      list = columns_of.sort(data, list, n, falling)
      for i = 1, n do assert.equal(want[i], list[i - 1]) end
    end
  end)
end)
