-- SPDX-License-Identifier: MIT
-- What public functions and methods say of the calls they refuse, one argument after the other, as
-- approved: which condition refused a call shows in nothing else.

local approved = dofile 'tests/lua/approved.lua'
local folders = dofile 'tests/lua/store/folder.lua'

local root = io.popen('pwd'):read '*l'

describe('a public function', function()
  it('says why it refuses an argument', function()
    local folder = folders.new()
    local lua = os.getenv 'RIDGE_LUA' and 'RIDGE_LUA="$(realpath "$RIDGE_LUA")" ' or ''
    local calls = root .. '/tests/lua/calls/'
    local text, status = folders.run((lua .. "sh -c 'cd %s && export HOME=%s && %s/ridge "
      .. "%smeasured.lua fit.db && %s/ridge --threads 1 %srefused.lua said'"):format(folder,
      folder, root, calls, root, calls))
    local file = io.open(folder .. '/said', 'rb')
    local said = file and file:read '*a'
    if file then file:close() end
    folders.remove(folder)
    assert.equal(0, status, text)
    assert.matches('DONE\n$', text)
    approved.check('calls/refused', said)
  end)
end)
