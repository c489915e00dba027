-- SPDX-License-Identifier: MIT
--- Ranks on two machines, as network namespaces (tests/lua/dist/machines): they train together, and
--- the link between them is cut. Pending where these cannot be made.

local ranks = require 'tests.lua.dist.ranks'

local MACHINES = 'tests/lua/dist/machines'

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  local body, status = text:match '^(.*)status (%d+)\n$'
  return body, tonumber(status)
end

local function can()
  if output 'id -u' ~= '0\n' then return false, 'needs root' end
  for _, name in ipairs { 'mpirun', 'ip', 'unshare' } do
    if not output('command -v ' .. name):find '/' then return false, 'there is no ' .. name end
  end
  local library = io.open('build/libridge_mpi.so', 'rb')
  if not library then return false, 'no libopenmpi-dev when ridge was built' end
  library:close()
  output(MACHINES .. ' down')
  local text, status = output(MACHINES .. ' up 2 && ' .. MACHINES .. ' run 1 true')
  if status ~= 0 then return false, 'no namespaces: ' .. text:gsub('\n', ' ') end
  return true
end

describe('ranks on two machines', function()
  local there, why = can()
  if not there then
    pending('train together, and end where the link is cut (' .. why .. ')', function() end)
    return
  end

  local folder

  setup(function() folder = output 'mktemp -d':match '[^\n]+' end)
  teardown(function()
    output(MACHINES .. ' down')
    os.execute('rm -rf ' .. folder)
  end)

  local LAUNCH = ("OMPI_MCA_plm_rsh_agent='%s ssh' %s run 1 ./ridge launch -n 4 "
    .. '--hosts 10.77.0.1:2,10.77.0.2:2'):format(output('realpath ' .. MACHINES):match '[^\n]+',
    MACHINES)

  it('train together', function()
    local text, status = output(LAUNCH .. ' tests/lua/dist/child.lua collectives')
    assert.equal(0, status, text)
    for r = 0, 3 do assert.matches(('%%[%d%%] collectives 4 2\n'):format(r), text) end
  end)

  it('end where the link is cut, and go on without the machine that is lost', function()
    local text, status = output(([[sh -c '
      %s --silence 15 --restarts 1 --wait 0.01 --min-ranks 2 tests/lua/dist/restart_child.lua \
        %s 40 "" 2 >%s/said 2>&1 & it=$!
      while ! [ -e %s/checkpoint.safetensors ]; do sleep 0.05; done
      %s cut 2; wait $it']]):format(LAUNCH:gsub("'", '"'), folder, folder, folder, MACHINES))
    local said = io.open(folder .. '/said', 'rb'):read '*a'
    assert.equal(0, status, text .. said)
    for r = 0, 1 do
      assert.matches(('%%[%d%%] error: dist.%%a+: ranks? [23].- collective %%d+ '):format(r), said)
    end
    assert.matches('ranks 0 and 1 waited in vain for ranks 2 and 3, which are not reached any more;'
      .. ' restart 1 of 1, with 2 ranks', said)
    assert.matches('start 1 of 2 ranks at epoch %d+', said)
    assert.matches('end after 280 steps, rows of a rank 16,', said) -- the batch of all is as it was
    -- for ever, where one of the lost machine outlives it
    while ranks.left '.*restart_child.lua' > 0 do os.execute 'sleep 0.1' end
    while output("LD_PRELOAD= ps -eo args | grep -c '[o]rted -mca'"):match '%d+' ~= '0' do
      os.execute 'sleep 0.1'
    end
  end)
end)
