# Rails, Sinatra or any Rack application: `use Limit, 'api'` asks weir before each request.
require 'net/http'

class Limit
  WEIR = URI(ENV.fetch('WEIR', 'http://127.0.0.1:7311'))
  FIELDS = %w[ratelimit ratelimit-policy retry-after].freeze

  def initialize(app, name, client: ->(env) { env['REMOTE_ADDR'] }, closed: false)
    @app, @name, @client, @closed = app, name, client, closed
  end

  def call(env)
    answer = ask(@client.call(env))
    return @closed ? later(503, 'retry-after' => '1') : @app.call(env) unless answer # without weir

    fields = FIELDS.to_h { |name| [name, answer[name]] }.compact
    case answer.code
    when '204'
      status, headers, body = @app.call(env)
      [status, headers.merge(fields), body]
    when '429', '503'
      later(answer.code.to_i, fields)
    else
      raise "weir: #{answer.code} for the limit #{@name}"
    end
  end

  private

  def later(status, fields)
    [status, fields.merge('content-type' => 'text/plain'), ["try again later\n"]]
  end

  def ask(client)
    Net::HTTP.start(WEIR.host, WEIR.port, open_timeout: 0.1, read_timeout: 0.5, max_retries: 0) do |weir|
      weir.get("/v1/auth/#{@name}", 'X-Forwarded-For' => client)
    end
  rescue SystemCallError, SocketError, IOError, Timeout::Error, Net::ProtocolError
    nil
  end
end
