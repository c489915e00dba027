-- SPDX-License-Identifier: MIT
-- The script that asks whether intervals hold what other runs find: its tables of made-up runs of
-- which the answer is known, and that it goes on after kill -9.

local folders = require 'tests.lua.store.folder'
local literal = require 'ridge.measure.literal'
local random = require 'ridge.measure.random'

local tables = dofile 'scripts/trust/tables.lua'

local function run_of(r, group, sd, level)
  local med = math.exp(sd * r:normal() + (level or 0))
  return { med = med, lo = med * math.exp(-1.96 * sd), hi = med * math.exp(1.96 * sd),
    group = group }
end

describe('the tables of the trust trials', function()
  it('find what a perfect interval has: 83 of 100 pairs, 95 of all', function()
    local r, runs = random.new(3), {}
    for group = 1, 4 do
      for _ = 1, 60 do runs[#runs + 1] = run_of(r, group, 0.1) end
    end
    local c = tables.coverage(runs)
    assert.is_true(math.abs(c.one - 0.834) < 0.03, c.one)
    assert.is_true(c.all > 0.9 and c.all < 0.98, c.all)
    assert.is_true(math.abs(c.same - c.one) < 0.03)
    assert.is_true(math.abs(c.width - 19.6) < 0.01)
    assert.is_true(c.one_sd > 0.002 and c.one_sd < 0.03)
  end)

  it('do not take runs of the same minutes for independent ones', function()
    -- a state of the machine that outlasts a group moves all of its runs
    local r, runs = random.new(4), {}
    for group = 1, 4 do
      for _ = 1, 30 do runs[#runs + 1] = run_of(r, group, 0.1, 0.5 * group) end
    end
    local c = tables.coverage(runs)
    assert.is_true(c.same > 0.7, c.same)
    assert.is_true(c.one < 0.1, c.one)
    assert.is_true(c.all < 0.4, c.all)
  end)

  it('say that one group shows nothing of other minutes', function()
    local r, runs = random.new(5), {}
    for _ = 1, 8 do runs[#runs + 1] = run_of(r, 1, 0.1) end
    local c = tables.coverage(runs)
    assert.is_false(c.apart)
    assert.is_nil(c.same)
    assert.is_true(c.one > 0)
    assert.is_nil(tables.coverage({}).one)
  end)

  it('hold the estimators against each other on the same samples', function()
    local r, rows = random.new(6), {}
    local function row(what, run, group, found, pass)
      rows[#rows + 1] = { key = tostring(#rows), neighbour = 'quiet', what = what, run = run,
        group = group, pass = pass, of = 5, seconds = 1, found = { add = found },
        host = { foreign = 0.03 } }
    end
    for group = 1, 2 do
      for run = 1, 20 do
        for pass = 1, 5 do
          local level = math.exp(0.1 * r:normal())
          row('pass', run, group, { dur = { level, level * 1.001, level * 1.002 },
            copy = { level * 1.002, level * 1.001, level } }, pass)
        end
        -- one process: ten alike, somewhere else each time
        local level, rounds = math.exp(0.1 * r:normal()), {}
        for k = 1, 3 do
          rounds[k] = { level, level * 1.001, level * 0.999, level, level * 1.0005 }
        end
        row('quick', run, group, { rounds = rounds, med = level, lo = level * 0.999,
          hi = level * 1.001, like = 'small' })
      end
    end
    rows[#rows + 1] = { neighbour = 'quiet', what = 'trust', key = 't',
      found = { up = 9, down = 9, kinds = { small = { up = 0.2, down = 0.2 } } } }
    local text = tables.text(rows, { 'add' }, { quiet = 'x' })
    local lines = {}
    for line in text:gmatch '[^\n]+' do
      if line:find '^add' then lines[#lines + 1] = line end
    end
    local in_passes, quick = lines[1], lines[2]
    local one = tonumber(in_passes:match '^add%s+(%d+)')
    assert.is_true(one >= 75, in_passes)
    local prior, _, _, _, trust = quick:match
      '^add%s+(%d+)~%d+%s+(%d+)~%d+%s+(%d+)%s+([%d.]+)%s+(%d+)'
    assert.is_true(tonumber(prior) >= 75 and tonumber(trust) >= 75, quick)
    -- the old estimator of the same samples: an interval of a tenth of a per cent
    assert.matches('[ ][0-5]~%d+%s+%d+~%d+%s+%d+%s+0%.1', quick)
    assert.matches('copies side by side', text)
    assert.matches('add%s+0 of 40', text)
    assert.matches('others used 3 %%', text)
  end)
end)

describe('the trust trials', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function lines_of(path)
    local n, f = 0, io.open(path)
    if not f then return 0 end
    for _ in f:lines() do n = n + 1 end
    f:close()
    return n
  end

  it('go on after kill -9 behind every process that ended, and leave no neighbour', function()
    local out, log = folder .. '/t.rows', folder .. '/log'
    local command = './build/ridge scripts/trust_trials.lua --neighbour spin --groups 1 --runs 1 '
      .. '--spread 0 --trust 0 --kinds L1 --level quick --out ' .. out
    local pipe = io.popen(("sh -c 'echo $$; exec %s >%s 2>&1'"):format(command, log))
    local pid = pipe:read '*n'
    repeat os.execute 'sleep 0.05' until lines_of(out) >= 2
    local own = folders.run(('LD_PRELOAD= ps -o pid= --ppid %d'):format(pid))
    os.execute(('kill -9 %d'):format(pid))
    pipe:close()
    local before = lines_of(out)
    local f = assert(io.open(out, 'a'))
    f:write '{["key"]="torn", ["what"'
    f:close()
    local text, status = folders.run(command)
    assert.equal(0, status, text)
    local seen, n = {}, 0
    for line in io.lines(out) do
      local ok, row = pcall(literal.decode, line)
      if ok and type(row) == 'table' then
        n = n + 1
        assert.is_nil(seen[row.key], row.key)
        seen[row.key] = true
      end
    end
    assert.equal(5 + 1 + 1, n) -- passes, quick and the protocol of before passes
    assert.is_true(before < n)
    assert.is_true(seen['spin 1 1 quick 0'])
    assert.is_true(seen['spin 1 1 old 0'])
    assert.matches('1 runs in 1 group', text)
    -- a neighbour lives as long as its parent
    assert.matches('%d', own)
    for id in own:gmatch '%d+' do
      local _, gone = folders.run(('for i in $(seq 200); do kill -0 %s 2>/dev/null || exit 7; '
        .. 'sleep 0.1; done'):format(id))
      assert.is_not.equal(0, gone)
    end
    local again = folders.run(command .. ' --passes 7')
    assert.matches('name another %-%-out', again)
  end)
end)
