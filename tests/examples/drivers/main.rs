//! The limit, asked as a server would.
mod limit;

use std::io::BufRead;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let weir = format!("127.0.0.1:{}", words[4]).parse().unwrap();
    let limit = limit::Limit::new(weir, &words[2], words[3] == "1");
    for line in std::io::stdin().lock().lines() {
        let (status, fields, body) = match limit.ask(&line.unwrap()) {
            Ok(answer) if answer.status == 204 => (200, answer.fields, "hello".to_string()),
            Ok(answer) => (answer.status, answer.fields, "try again later".to_string()),
            Err(why) => (500, vec![], why),
        };
        let field = |name: &str| fields.iter().find(|f| f.0 == name).map_or("", |f| &f.1).to_string();
        println!("{}|{}|{}|{}", status, field("ratelimit"), field("retry-after"), body);
    }
}
