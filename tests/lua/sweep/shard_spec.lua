-- SPDX-License-Identifier: MIT
-- The parts of a sweep that several machines do: together they are all of it, and no point twice.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local part = require 'ridge.sweep.part'
local sweep = require 'ridge.sweep'

local N = 100

-- The points that runs of these shards measured, each into a database of its own.
local function measured(folder, runs)
  local seen, counts = {}, {}
  for i, go in ipairs(runs) do
    local own = {}
    local sw = sweep 'parts' { space = { k = sweep.range(1, N) }, measure = function(p, _, m)
      own[#own + 1] = p.k
      m:metric('v', p.k)
    end }
    go(function(shard)
      return sw:run { db = ('%s/%d-%d.db'):format(folder, #runs, i), lab = cheap_lab.new(),
        progress = false, shard = shard }
    end)
    counts[i] = #own
    for _, k in ipairs(own) do
      assert.is_nil(seen[k], ('k = %d is in shards %s and %d'):format(k, tostring(seen[k]), i))
      seen[k] = i
    end
  end
  return seen, counts
end

local function is_everything(seen, counts)
  for k = 1, N do assert.is_number(seen[k], ('k = %d is in no shard'):format(k)) end
  for i, n in ipairs(counts) do assert.is_true(n > 0, ('shard %d does nothing'):format(i)) end
end

describe('a duration', function()
  local seconds = require('ridge.sweep.part').seconds

  it('is seconds, or text with units', function()
    for text, wanted in pairs { ['90'] = 90, ['90s'] = 90, ['15m'] = 900, ['2h'] = 7200,
      ['1h30m'] = 5400, ['1d 2h 3m 4s'] = 93784, ['0.5h'] = 1800 } do
      assert.equal(wanted, seconds(text), text)
    end
    assert.equal(7, seconds(7))
    assert.is_nil(seconds(nil))
    for _, wrong in ipairs { '', 'x', '1x', '1h x', '-1s', '0', '1.2.3s', 0 / 0, 1 / 0 } do
      local ok, e = pcall(seconds, wrong)
      assert.is_false(ok, tostring(wrong))
      assert.equal('EARG', e.code)
      assert.matches('is no duration', e.message)
    end
  end)
end)

describe('the shards of a sweep', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  it('are everything together, and each point is in one of them', function()
    for _, n in ipairs { 1, 2, 4, 7 } do
      local runs = {}
      for i = 1, n do runs[i] = function(run) run(('%d/%d'):format(i, n)) end end
      is_everything(measured(folder, runs))
    end
  end)

  it('are by the first four bytes of the address of a point, the same on every machine', function()
    measured(folder, { function(run) run(nil) end })
    local db = require('ridge.store.sqlite').open(folder .. '/1-1.db', 'read')
    local rows = db:query [[SELECT t.shard AS shard, substr(hex(c.sha), 1, 8) AS sha
      FROM trial t JOIN config c ON c.id = t.config_id]]
    db:close()
    assert.equal(N, #rows)
    for _, row in ipairs(rows) do assert.equal(tonumber(row.sha, 16), row.shard) end
  end)

  it('are everything as tasks of an array job, whatever its numbers begin with', function()
    local real = os.getenv
    finally(function() os.getenv = real end) -- luacheck: ignore 122
    for _, first in ipairs { 0, 1, 5 } do
      local runs = {}
      for i = 1, 4 do
        runs[i] = function(run)
          os.getenv = function(name) -- luacheck: ignore 122
            if name == 'SLURM_ARRAY_TASK_ID' then return tostring(first + i - 1) end
            if name == 'SLURM_ARRAY_TASK_COUNT' then return '4' end
            return real(name)
          end
          run(nil)
          os.getenv = real -- luacheck: ignore 122
        end
      end
      local own = folders.new()
      is_everything(measured(own, runs))
      folders.remove(own)
    end
  end)

  it('are everything as tasks of an array job in steps; uneven ones are refused', function()
    local real = os.getenv
    finally(function() os.getenv = real end) -- luacheck: ignore 122
    local function as_task(id, ids, fn)
      local told = { ID = id, COUNT = #ids, MIN = ids[1], MAX = ids[#ids] }
      os.getenv = function(name) -- luacheck: ignore 122
        local own = told[name:match '^SLURM_ARRAY_TASK_(%u+)$' or '']
        if own then return tostring(own) end
        return real(name)
      end
      local ok, result = pcall(fn)
      os.getenv = real -- luacheck: ignore 122
      return ok, result
    end
    for _, ids in ipairs { { 0, 3, 6 }, { 2, 4, 6, 8 }, { 5, 6, 7 }, { 9 }, { 1, 7 } } do
      local parts = {}
      for _, id in ipairs(ids) do
        local _, shard = assert(as_task(id, ids, part.shard))
        assert.equal(#ids, shard.n)
        parts[#parts + 1] = shard.i
      end
      table.sort(parts)
      for i = 1, #ids do assert.equal(i - 1, parts[i], table.concat(ids, ' ')) end
    end
    local ok, e = as_task(2, { 1, 2, 9, 10 }, part.shard)
    assert.is_false(ok)
    assert.equal('EARG', e.code)
    assert.matches('tasks 1 to 10 of this array job are 4 in uneven steps, so 2 says', e.message)
  end)

  -- What part.shard says to a process that has these variables and no others of schedulers.
  local function told(variables, given)
    local real = os.getenv
    os.getenv = function(name) -- luacheck: ignore 122
      if name:find '^SLURM_' or name:find '^SGE_' or name:find '^PBS_' or name:find '^JOB_' then
        return variables[name]
      end
      return real(name)
    end
    local ok, result = pcall(part.shard, given)
    os.getenv = real -- luacheck: ignore 122
    return ok and (result or 'all') or result.message
  end

  it('are everything as tasks of every scheduler, each part once', function()
    for name, make in pairs {
      slurm = function(i) return { SLURM_ARRAY_TASK_ID = i, SLURM_ARRAY_TASK_COUNT = '8',
        SLURM_ARRAY_TASK_MIN = '0', SLURM_ARRAY_TASK_MAX = '7' } end,
      k8s = function(i) return { JOB_COMPLETION_INDEX = i } end,
      pbs = function(i) return { PBS_ARRAY_INDEX = i } end,
      from_1 = function(i) return { PBS_ARRAY_INDEX = ('%d'):format(i + 1) } end,
      sge = function(i) return { SGE_TASK_ID = ('%d'):format(i + 1), SGE_TASK_FIRST = '1',
        SGE_TASK_LAST = '8', SGE_TASK_STEPSIZE = '1' } end,
      steps = function(i) return { SGE_TASK_ID = ('%d'):format(3 + 4 * i), SGE_TASK_FIRST = '3',
        SGE_TASK_LAST = '34', SGE_TASK_STEPSIZE = '4' } end } do -- 3, 7 .. 31
      local seen = {}
      for i = 0, 7 do
        local variables = make(('%d'):format(i))
        local shard = told(variables, 'auto/8')
        assert.equal(8, shard.n, name)
        seen[#seen + 1] = shard.i
        assert.same(shard, (name == 'slurm' or name:find '^s') and told(variables) or shard)
        assert.same(shard, name:find '^s' and told(variables, 'auto') or shard)
        assert.same({ i = 2, n = 3 }, told(variables, '3/3')) -- what is typed stands above it
      end
      table.sort(seen)
      assert.same({ 0, 1, 2, 3, 4, 5, 6, 7 }, seen, name)
    end
  end)

  it('are those of the whole job where a scheduler does some tasks again', function()
    assert.same({ i = 5, n = 8 }, told({ SLURM_ARRAY_TASK_ID = '5', SLURM_ARRAY_TASK_COUNT = '1',
      SLURM_ARRAY_TASK_MIN = '5', SLURM_ARRAY_TASK_MAX = '5' }, 'auto/8'))
    assert.same({ i = 0, n = 8 }, told({ SGE_TASK_ID = '8', SGE_TASK_FIRST = '8',
      SGE_TASK_LAST = '8', SGE_TASK_STEPSIZE = '1' }, 'auto/8'))
    assert.same({ i = 7, n = 8 }, told({ SLURM_ARRAY_TASK_ID = '7', SLURM_ARRAY_TASK_COUNT = '2',
      SLURM_ARRAY_TASK_MIN = '3', SLURM_ARRAY_TASK_MAX = '7' }, 'auto/8'))
  end)

  it('are everything where a scheduler says that there is no array', function()
    assert.equal('all', told {})
    assert.equal('all', told { SGE_TASK_ID = 'undefined', SGE_TASK_FIRST = 'undefined',
      SGE_TASK_LAST = 'undefined', SGE_TASK_STEPSIZE = 'undefined' })
    assert.equal('all', told { SLURM_ARRAY_TASK_ID = '' })
  end)

  it('are refused where nobody knows which', function()
    assert.equal('JOB_COMPLETION_INDEX is 3, and nothing says of how many tasks: give --shard '
      .. 'auto/n, or 1/1 where this process is to do all', told { JOB_COMPLETION_INDEX = '3' })
    assert.matches('PBS_ARRAY_INDEX is 3, and nothing', told({ PBS_ARRAY_INDEX = '3' }, 'auto'))
    for _, given in ipairs { 'auto', 'auto/8' } do
      assert.matches('shard: ' .. given .. ': this is no task of an array job, none of '
        .. 'SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, PBS_ARRAY_INDEX, SGE_TASK_ID is set',
        told({}, given))
    end
    assert.matches('SLURM_ARRAY_TASK_ID and PBS_ARRAY_INDEX are both set',
      told({ SLURM_ARRAY_TASK_ID = '1', PBS_ARRAY_INDEX = '1' }, 'auto/8'))
    assert.matches("SGE_TASK_ID is 'one', which is no number", told { SGE_TASK_ID = 'one' })
    assert.matches('the array job has 4 tasks, and there are 3 parts', told({
      SLURM_ARRAY_TASK_ID = '1', SLURM_ARRAY_TASK_COUNT = '4', SLURM_ARRAY_TASK_MIN = '0',
      SLURM_ARRAY_TASK_MAX = '3' }, 'auto/3'))
    for _, given in ipairs { 'auto/', 'auto/0', 'auto8', 'auto/1000001', 'auto/-1', 'Auto' } do
      assert.matches("is not like 2/8, the second of eight, or auto/8", told({}, given))
    end
  end)

  it('say in a dry run what is theirs, with a file and without', function()
    local function dry(shard, db)
      local sw = sweep 'parts' { space = { k = sweep.range(1, N) }, anchor = { k = 1 },
        measure = function() end }
      return sw:dry_run { db = db, lab = cheap_lab.new(), shard = shard }
    end
    local db = folder .. '/one.db'
    local all = dry(nil, db).to_run
    local anchors = all - N
    for pass = 1, 2 do
      local sum = 0
      for i = 1, 4 do
        local facts = dry(i .. '/4', db)
        sum = sum + facts.to_run - anchors
        assert.same({ all, 0 }, { facts.to_run + facts.elsewhere, facts.done })
        assert.matches(('%d of other shards, %d to run'):format(facts.elsewhere, facts.to_run),
          facts.text)
      end
      assert.equal(N, sum)
      if pass == 1 then require('ridge.store').open(db, 'write'):close() end
    end
  end)

  it('take only their own part of what another space has measured', function()
    local db, lab = folder .. '/one.db', cheap_lab.new()
    lab.flags = {}
    local calls
    local function declare(last)
      calls = 0
      return sweep 'parts' { space = { k = sweep.range(1, last) }, measure = function(p, _, m)
        calls = calls + 1
        m:time('fwd', function() return p.k end)
      end }
    end
    declare(N):run { db = db, lab = lab, progress = false }
    local taken, left = 0, 0
    for i = 1, 4 do
      local opt = { db = db, lab = lab, progress = false, new = i == 1, shard = i .. '/4' }
      local sw = declare(N + 8)
      local facts = sw:dry_run(opt)
      assert.is_true(facts.reused > 0 and facts.reused < N / 2)
      assert.equal(0, facts.done)
      local own = sw:run(opt).counts
      assert.same({ facts.reused + facts.to_run, facts.to_run }, { own.ok, calls })
      taken, left = taken + facts.reused, left + calls
    end
    assert.same({ N, 8 }, { taken, left })
  end)

  it('are written from 1 to n, and nothing else', function()
    assert.same({ i = 0, n = 4 }, part.shard '1/4')
    assert.same({ i = 3, n = 4 }, part.shard '4/4')
    assert.same({ i = 0, n = 1 }, part.shard '1/1')
    for _, text in ipairs { '0/4', '5/4', '4/0', '1', '1/', '/4', '-1/4', '1/4/2', '1.5/4', '' } do
      assert.is_false((pcall(part.shard, text)), text)
    end
  end)
end)
