-- SPDX-License-Identifier: MIT
--- Optimizers whose moments are shared out over ranks take the same steps, in the same bits.

local ridge = require 'ridge'

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  local body, status = text:match '^(.*)status (%d+)\n$'
  return body, tonumber(status)
end

local function can()
  local library = io.open('build/libridge_mpi.so', 'rb')
  if library then library:close() end
  return library and output('command -v mpirun'):find '/'
end

local function lines(text, pattern)
  local n = 0
  for line in text:gmatch '[^\n]+' do
    if line:find(pattern) then n = n + 1 end
  end
  return n
end

-- Bytes of moments by rank, as the child prints them: 124 elements in f32, and states of each.
local BYTES = {
  { ['SGD 1'] = '496', ['SGD 2'] = '0', ['Adam 3'] = '1488', ['AdamW 4'] = '992',
    ['Lion 5'] = '496' },
  { ['SGD 1'] = '248 248', ['SGD 2'] = '0 0', ['Adam 3'] = '744 744', ['AdamW 4'] = '496 496',
    ['Lion 5'] = '248 248' },
  { ['SGD 1'] = '168 168 160', ['SGD 2'] = '0 0 0', ['Adam 3'] = '504 504 480',
    ['AdamW 4'] = '336 336 320', ['Lion 5'] = '168 168 160' },
}

describe('dist.Sharded', function()
  it('is of an optimizer', function()
    local net = ridge.nn.Linear(3, 2)
    for _, each in ipairs { { 'an optimizer is expected, got 3', 3 },
      { 'an optimizer is expected, got', ridge.dist.Sharded(ridge.optim.SGD(net)) } } do
      local ok, err = pcall(ridge.dist.Sharded, each[2])
      assert.is_false(ok)
      assert.matches(each[1], tostring(err))
    end
    local state = ridge.dist.Sharded(ridge.optim.Adam(net)):state()
    local ok, err = pcall(function() ridge.dist.Sharded(ridge.optim.SGD(net)):load_state(state) end)
    assert.is_false(ok)
    assert.matches('tensors are left over: the state is of another optimizer', tostring(err))
  end)

  if not can() then
    pending('takes the steps of one that is not sharded (no MPI: scripts/deps mpi)', function() end)
    return
  end

  it('takes the steps of one that is not sharded, over any number of ranks', function()
    local folder = output 'mktemp -d':match '[^\n]+'
    for _, n in ipairs { 2, 1, 3 } do -- the state of two goes on in one, and in three
      local text, status = output(('./ridge launch -n %d tests/lua/dist/sharded_child.lua %s')
        :format(n, folder))
      assert.equal(0, status, text)
      for name, bytes in pairs(BYTES[n]) do
        assert.equal(n, lines(text, '%] steps ' .. name .. ' true'), text)
        assert.equal(n, lines(text, '%] loaded ' .. name .. ' true'), text)
        assert.equal(1, lines(text, '%] bytes ' .. name .. ' ' .. bytes .. '$'), text)
      end
      for _, name in ipairs { 'over', 'small', 'large' } do
        assert.equal(n, lines(text, name .. '\ttrue'), text)
      end
      assert.equal(n, lines(text, 'weight was replaced: make the'), text)
      assert.equal(n > 1 and n or 0, lines(text, 'rank 0 option lr of group 1 is 1'), text)
    end
    os.execute('rm -rf ' .. folder)
  end)
end)
