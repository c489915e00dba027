-- SPDX-License-Identifier: MIT
-- SHA-256 against the vectors of FIPS 180-4 and the lengths at which padding changes.

local sha256 = require 'ridge.store.sha256'

local function hex(text) return sha256.hex(sha256.digest(text)) end

describe('SHA-256', function()
  it('gives the published digests', function()
    assert.equal('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', hex '')
    assert.equal('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', hex 'abc')
    assert.equal('248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
      hex 'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq')
    assert.equal('cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0',
      hex(('a'):rep(1000000)))
  end)

  it('pads around the end of a block', function()
    assert.equal('9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318',
      hex(('a'):rep(55)))
    assert.equal('b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a',
      hex(('a'):rep(56)))
    assert.equal('ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb',
      hex(('a'):rep(64)))
  end)
end)
