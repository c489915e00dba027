-- SPDX-License-Identifier: MIT
-- What is believed of libraries: every line of the table in tests/sim/README.md has a probe in
-- scripts/gpu/beliefs.lua and every probe has a line; and on the simulated GPU they hold.
local SIMULATED = 'build/libridge_gpusim.so'
local TABLE = 'tests/sim/README.md'

local function run(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

-- Names in the first column of the tables of beliefs; lines that have none.
local function names_of_lines()
  local names, without, inside = {}, {}, false
  for line in io.lines(TABLE) do
    if line:find '^## ' then inside = line:find '^## What is believed of' ~= nil end
    if inside and line:find '^|' and not line:find '^| *name *|' and not line:find '^|[-|]+$' then
      local name = line:match '^| *`([a-z0-9][a-z0-9-]*)` *|'
      if not name then
        without[#without + 1] = line
      else
        names[#names + 1] = name
        assert(not names[name], ('%s: two lines are named `%s`'):format(TABLE, name))
        names[name] = true
      end
    end
  end
  return names, without
end

local function names_of_probes()
  local names = {}
  local text = run './ridge scripts/gpu/beliefs.lua --list'
  assert(text:find '\nstatus 0\n$', text)
  for name in text:gsub('status 0\n$', ''):gmatch '[^\n]+' do
    names[#names + 1], names[name] = name, true
  end
  return names
end

describe('beliefs of libraries', function()
  it('have a line in the table and a probe each, by one name', function()
    local lines, without = names_of_lines()
    local probes = names_of_probes()
    local wrong = {}
    for _, line in ipairs(without) do
      wrong[#wrong + 1] = ('%s: this line has no name in a first column; give it `a-name` there, '
        .. "and a probe('a-name', ...) in scripts/gpu/beliefs_*.lua:\n  %s"):format(TABLE, line)
    end
    for _, name in ipairs(lines) do
      if not probes[name] then
        wrong[#wrong + 1] = ("%s: `%s` has no probe: write probe('%s', ...) in "
          .. 'scripts/gpu/beliefs_*.lua'):format(TABLE, name, name)
      end
    end
    for _, name in ipairs(probes) do
      if not lines[name] then
        wrong[#wrong + 1] = ('scripts/gpu/beliefs_*.lua: the probe %s has no line in %s'):format(
          name, TABLE)
      end
    end
    assert(#wrong == 0, '\n' .. table.concat(wrong, '\n'))
    assert.is_true(#lines > 20)
  end)

  it('hold on the simulated GPU, where nothing is timed', function()
    local file = io.open(SIMULATED)
    if not file then return pending 'no nvcc: the simulated GPU was not built' end
    file:close()
    for _, order in ipairs { 'fwd', 'rev' } do
      local text = run(('env -u XDG_CACHE_HOME RIDGE_CUDNN=simulated RG_SIM_ORDER=%s RIDGE_GPU=%s '
        .. './ridge scripts/gpu/beliefs.lua --tiny'):format(order, SIMULATED))
      assert.matches('status 0\n$', text)
      local timed = { ['align-16'] = true, ['workspace-32'] = true, ['lazy-kernels'] = true,
        ['dnn-choice'] = true }
      for _, name in ipairs(names_of_probes()) do
        local said = text:match('\n' .. name:gsub('%-', '%%-') .. ' +([^\n:(]+)', 1)
          or text:match('^' .. name:gsub('%-', '%%-') .. ' +([^\n:(]+)')
        assert.equal(timed[name] and 'not timed' or 'held', said and said:gsub(' $', ''), name)
      end
    end
  end)

  it('are shown one by one, and names that are none are refused', function()
    local text = run(('RIDGE_GPU=%s ./ridge scripts/gpu/beliefs.lua --tiny --only nothing'):format(
      SIMULATED))
    assert.is_nil(text:find 'status 0\n$')
  end)

  it('that are not promised are looked at, and fail nothing', function()
    local file = io.open(SIMULATED)
    if not file then return pending 'no nvcc: the simulated GPU was not built' end
    file:close()
    local text = run(('RG_SIM_BLAS_NAN=0 RIDGE_GPU=%s ./ridge scripts/gpu/beliefs.lua --tiny '
      .. '--only relu-nan,beta-0'):format(SIMULATED))
    assert.matches('relu%-nan +look: not promised: ', text)
    assert.matches('1 held, 1 look\nstatus 0\n$', text)
  end)
end)
